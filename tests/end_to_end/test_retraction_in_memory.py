"""A device is retracted while everybody runs: real agents, a real coordinator, and a replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionRetracted,
)
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus, ModelSolved
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.replay.stories import replay
from tests.end_to_end.memory_fleet import MemoryFleet, put_pictures

SETTINGS = {"map_width": 60, "form": "compact"}


@pytest.fixture
def fleets() -> Iterator[list[MemoryFleet]]:
    made: list[MemoryFleet] = []
    yield made
    for fleet in made:
        fleet.close()


def begun(folder: Path, fleets: list[MemoryFleet], *names: str) -> MemoryFleet:
    """A fleet whose devices have pictures of both kinds, each its own, in the model."""
    fleet = MemoryFleet(folder, InMemoryBroker(), **SETTINGS)
    fleets.append(fleet)
    for name in names:
        device, first = fleet.add(name), 20 * len(name)
        for kind in ("vertical", "horizontal"):
            put_pictures(device.data, kind, range(first, first + 15))
    fleet.begin("vertical", "horizontal")
    total = 15 * len(names)
    fleet.until(lambda: fleet.counted_samples() == {"vertical": total, "horizontal": total})
    fleet.until(lambda: newest(fleet))
    return fleet


def newest(fleet: MemoryFleet) -> ModelSolved | None:
    """The newest model, if it is that of everything that is held."""
    model = fleet.coordinator.engine.core.state.models.newest
    given = fleet.coordinator.engine.core.state.contributions
    is_of_all = model is not None and given.unchanged_since(model.solved.ledger_size)
    return model.solved if model is not None and is_of_all else None


def refusals(fleet: MemoryFleet, name: str) -> list[str]:
    return [text for text in fleet.devices[name].status().refusals if "retracted" in text]


@pytest.mark.nightly
def test_a_retracted_device_is_as_if_it_had_never_taken_part(
    tmp_path: Path, fleets: list[MemoryFleet]
) -> None:
    fleet = begun(tmp_path / "with", fleets, "a", "bb", "ccc")
    first = newest(fleet)
    fleet.coordinator.command(
        RetractContributions(device=DeviceId("bb"), reason="its owner asked for it")
    )
    fleet.until(lambda: newest(fleet))
    solved = newest(fleet)
    assert first is not None
    assert solved is not None
    assert solved.version > first.version
    without = newest(begun(tmp_path / "without", fleets, "a", "ccc"))
    assert without is not None
    assert (solved.aggregate, solved.head) == (without.aggregate, without.head)

    # The device knows, gives nothing of it again, and runs the new model like the others.
    fleet.until(lambda: refusals(fleet, "bb"))
    assert "its owner asked for it" in refusals(fleet, "bb")[0]
    given = len(fleet.entries(ContributionAccepted))
    fleet.devices["bb"].stop()
    fleet.devices["bb"].start()
    fleet.restart_coordinator()

    def runs_it() -> bool:
        seen = [b.status for b in fleet.entries(DeviceModelStatus)]  # type: ignore[attr-defined]
        return sum(one.version == solved.version and one.state == "active" for one in seen) >= 3

    fleet.until(runs_it)
    fleet.settle(2.0)
    assert len(fleet.entries(ContributionAccepted)) == given
    put_pictures(fleet.devices["bb"].data, "vertical", range(500, 505))
    fleet.until(lambda: fleet.counted_samples()["vertical"] == 2 * 15 + 5)
    fleet.until(lambda: newest(fleet))
    assert len(fleet.entries(ContributionRetracted)) == 1
    assert verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs).ok

    code, out = replay(fleet.coordinator.home, "--all")
    states = [line.split("\t")[2] for line in out.splitlines()[:-1]]
    assert code == 0, out
    assert states == ["equal"] * len(fleet.entries(ModelSolved))


def test_a_device_that_was_away_and_one_that_was_reinstalled_bring_nothing_back(
    tmp_path: Path, fleets: list[MemoryFleet]
) -> None:
    fleet = begun(tmp_path, fleets, "a", "bb")
    fleet.devices["bb"].stop()
    fleet.coordinator.command(RetractContributions(device=DeviceId("bb"), reason="a broken camera"))
    fleet.until(lambda: newest(fleet))
    given = len(fleet.entries(ContributionAccepted))
    fleet.devices["bb"].start()
    fleet.until(lambda: refusals(fleet, "bb"))
    fleet.devices["bb"].reinstall()  # counts its images anew, under another number
    fleet.until(lambda: refusals(fleet, "bb"))
    fleet.settle(1.0)
    assert len(fleet.entries(ContributionAccepted)) == given
    assert fleet.counted_samples() == {"vertical": 15, "horizontal": 15}
    assert not fleet.entries(WeightsAveraged)

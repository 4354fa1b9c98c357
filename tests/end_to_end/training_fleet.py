"""Fleets of real programs that train a network in two stages, and what holds of all of them.

What goes wrong in such a fleet, and what only its method does, is told by the file of each method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, TypeVar

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened, WeightsAveraged
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.coordinator.reports import of_home
from tests.end_to_end.process_fleet import ProcessFleet

FleetT = TypeVar("FleetT", bound="TrainingFleet")


class TrainingFleet(ProcessFleet):
    """Devices that train a network in rounds, in two stages."""

    devices: ClassVar[tuple[str, ...]] = ("dev-a", "dev-b", "dev-c")
    settings: ClassVar[str]
    """Method and rounds, as in `coordinator.toml`."""
    rounds_of_stage: ClassVar[int]
    """Phases that are rounds of their own, included."""
    knows: ClassVar[tuple[tuple[int, Sequence[str], float], ...]]
    """How well every device has to know which classes with the model of which version."""

    def make_homes(self) -> None:
        """Make the homes of the coordinator and of all devices."""
        self.set_up_coordinator(self.settings)
        for device in self.devices:
            self.set_up_agent(device)

    def start_all(self) -> None:
        """Start the coordinator and all devices, and wait until they are there."""
        self.start_coordinator()
        for device in self.devices:
            self.start_agent(device)
        self.until_there(len(self.devices))

    def until_there(self, births: int) -> None:
        self.until(lambda: len(self.entries(DeviceBorn)) == births)

    def open_stage(self, names: Sequence[str]) -> None:
        self.operator("coordinator", "open-stage", *names)

    def until_measured(self, version: int, devices: int | None = None) -> None:
        """Wait until devices, or all of them, run the model of a stage and have measured it."""
        everybody = len(self.devices)
        self.until(lambda: len(self.evaluations(version)) == (devices or everybody))
        if devices in (None, everybody):
            self.until(
                lambda: all(self.status(name).active_version == version for name in self.devices)
            )

    def answers(self, number: int) -> dict[str | None, ContributionAccepted]:
        """What devices answered to a round."""
        every = self.entries(ContributionAccepted)
        answers = [(device, body) for device, body in every if body.part.round is not None]
        return {device: body for device, body in answers if body.part.round.number == number}

    def opened(self, number: int) -> RoundOpened | None:
        found = (body for _, body in self.entries(RoundOpened) if body.number == number)
        return next(found, None)

    def closed(self, number: int) -> RoundClosed:
        (body,) = [body for _, body in self.entries(RoundClosed) if body.number == number]
        return body

    def averaged(self) -> dict[int, WeightsAveraged]:
        """What came of the rounds so far, by their numbers."""
        return {body.number: body for _, body in self.entries(WeightsAveraged)}

    def measured(self, version: int, names: Sequence[str]) -> list[float]:
        """Return how well a model knows classes, as each device found on its own images."""
        found = []
        for body in self.evaluations(version):
            results = [body.results[ClassName(name)] for name in names]
            right = sum(result.correct for result in results)
            found.append(right / sum(result.total for result in results))
        return found


@contextmanager
def running(
    kind: type[FleetT], factory: pytest.TempPathFactory, broker: MosquittoBroker
) -> Iterator[FleetT]:
    """Yield a fleet of which nothing is set up yet; end its programs with the block."""
    folder = factory.mktemp(kind.name)
    (folder / "logs").mkdir()
    with Children(folder / "logs") as children:
        yield kind(folder, broker, children)


class EveryTrainingFleet:
    """Tests of what holds of every fleet that has learned two stages, whatever went wrong."""

    def test_every_round_came_to_weights(self, fleet: TrainingFleet) -> None:
        rows = of_home.rounds(fleet.home)
        assert [row.state for row in rows] == ["averaged"] * (2 * fleet.rounds_of_stage)
        assert sorted(fleet.averaged()) == [row.number for row in rows]
        assert fleet.operator("coordinator", "rounds").count("averaged") == len(rows)

    def test_every_device_runs_the_last_model(self, fleet: TrainingFleet) -> None:
        (_, exported) = fleet.entries(ModelExported)[-1]
        for device in fleet.devices:
            status = fleet.status(device)
            assert (status.active_version, status.active_manifest) == (2, exported.manifest.digest)
            assert status.provider == "CPUExecutionProvider"

    def test_every_device_knows_the_classes_of_both_stages(self, fleet: TrainingFleet) -> None:
        for version, names, least in fleet.knows:
            found = fleet.measured(version, names)
            assert min(found) > least, (version, names, found)

    def test_the_ledger_verifies(self, fleet: TrainingFleet) -> None:
        assert "blobs fit" in fleet.operator("ledger", "verify")

"""Devices that contribute in different forms, real agents and a real coordinator: one model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, ModelSolved
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.reports import Evaluation
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import MemoryDevice, MemoryFleet, put_pictures

SETTINGS = {"map_width": 60, "form": "compact", "forms": ["exact", "estimated"], "groups": 5}
FORMS = {"one": "exact", "two": "estimated", "three": None}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    made = MemoryFleet(tmp_path, InMemoryBroker(), **SETTINGS)
    for name, form in FORMS.items():
        choose(made.add(name), form)
    yield made
    made.close()


def choose(device: MemoryDevice, form: str | None) -> None:
    path = device.home / "agent.toml"
    if form is not None:
        path.write_text(f'contribution_form = "{form}"\n' + path.read_text(encoding="utf-8"))


def sent_forms(fleet: MemoryFleet) -> dict[str, str]:
    """The form in which each device contributed, read from the stored payloads."""
    half = statistics_coordinator("stsa")
    core = fleet.coordinator.engine.core
    own = half.read_assignment(core.state.lineages.current.settings)
    return {
        str(held.device): half.check(own, fleet.coordinator.blobs.get(held.payload)).form
        for held in core.state.contributions.counted.values()
    }


def newest(fleet: MemoryFleet) -> ModelSolved | None:
    """The newest model, if everything that is held is in it."""
    solved = fleet.entries(ModelSolved)
    given = fleet.coordinator.engine.core.state.contributions
    found = solved[-1] if solved else None
    is_of_all = isinstance(found, ModelSolved) and given.unchanged_since(found.ledger_size)
    return found if is_of_all else None


def test_three_forms_in_one_stage_become_one_model_and_retraction_is_exact(
    fleet: MemoryFleet,
) -> None:
    for index, device in enumerate(fleet.devices.values()):
        for name in ("vertical", "horizontal"):
            put_pictures(device.data, name, range(20 * index, 20 * index + 20))
            put_pictures(device.evaluation, name, range(100, 110))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 60, "horizontal": 60})
    fleet.until(lambda: newest(fleet))
    assert sent_forms(fleet) == {"one": "exact", "two": "estimated", "three": "compact"}
    first = newest(fleet)
    assert first is not None

    def evaluated() -> list[Evaluation]:
        found = fleet.entries(DeviceEvaluated)
        told = [body.evaluation for body in found if isinstance(body, DeviceEvaluated)]
        return [evaluation for evaluation in told if evaluation.version == first.version]

    fleet.until(lambda: len(evaluated()) == 3)
    assert all(result.correct >= 9 for body in evaluated() for result in body.results.values())

    fleet.devices["two"].reinstall()
    fleet.until(lambda: len(fleet.entries(ContributionAccepted)) == 4)
    fleet.until(lambda: newest(fleet))
    last = newest(fleet)
    assert last is not None
    assert last.version > first.version
    assert (last.aggregate, last.head) == (first.aggregate, first.head)
    assert verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs).ok


def test_a_picture_without_a_second_of_its_class_waits_for_one(fleet: MemoryFleet) -> None:
    one, two = fleet.devices["one"], fleet.devices["two"]
    put_pictures(one.data, "vertical", range(10))
    put_pictures(two.data, "horizontal", range(10))
    put_pictures(two.data, "vertical", range(50, 51))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 10, "horizontal": 10})
    fleet.settle(1.0)
    assert fleet.counted_samples() == {"vertical": 10, "horizontal": 10}
    put_pictures(two.data, "vertical", range(51, 53))
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 13, "horizontal": 10})


def test_a_class_that_one_group_holds_is_noted_in_the_ledger(fleet: MemoryFleet) -> None:
    two = fleet.devices["two"]
    put_pictures(two.data, "vertical", range(20))
    put_pictures(two.data, "horizontal", range(2))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: newest(fleet))
    found = newest(fleet)
    assert found is not None
    (remark,) = found.remarks
    assert "'horizontal' of stage 1 has one group" in remark
    *_, entry = fleet.coordinator.engine.ledger.find(ModelSolved)
    assert f"Note: {remark}." in sentence_of(entry)

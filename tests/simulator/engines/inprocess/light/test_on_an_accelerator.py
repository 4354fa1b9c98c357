"""Agents on an accelerator leave the entries that they leave on the processor, in both gears.

Answers are rounded and summed there, and come back together. The accelerator is the fake one, which
computes as the processor does, so that everything is equal to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from fleetledger.coordinator.topics.rounds.entries import RoundClosed
from fleetledger.learning.training import memory, resident
from fleetledger.learning.training.shared_inference import SharedInference
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.device import RoundsDevice
from fleetledger.methods.training.averaged_device import Answer
from fleetledger.methods.training.exchange import ClientUpdate
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.records import NoveltyCheckRecord
from fleetledger.simulator.scenario.model import Scenario, asked_of_time
from fleetledger.simulator.virtual import training
from tests.simulator.engines.inprocess.light.both import Learned, learn, means, said
from tests.simulator.rounds.small import on_features, prepared, small

pytestmark = pytest.mark.torch

ROUNDS = 2
UPLOAD = "learning/training/resident.py:of"
BACK = "learning/networks/conversion.py:brought_home"
QUICK: Mapping[str, Any] = {
    "engine": {"training": "stack"},
    "stages": {"classes": 2, "count": 1},
    "rounds": {"per_stage": ROUNDS},
}
TWO_STAGES = {**QUICK, "stages": {"classes": 4, "count": 2}, "rounds": {"per_stage": 1}}
ACTING = "that act by themselves"
FLEETS: Mapping[str, Scenario] = {
    "in a stack": small(**QUICK),
    "in a loop": small(**{**QUICK, "engine": {"training": "loop"}}),
    "in 16 bits, each alike": small(
        **QUICK, method={"settings": {"upload": "int16", "averaging": "plain"}}
    ),
    "two works, one after the other": on_features("fedhaf", **TWO_STAGES),
    ACTING: small(**{**QUICK, "engine": {"latency_ms": 5.0, "training": "stack"}}),
}
COPIES = {
    "in a stack": ROUNDS * (1 + 1 + 1) + 1,
    "in a loop": ROUNDS * (3 + 1 + 3),
    "in 16 bits, each alike": ROUNDS * (1 + 1 + 1) + 1,
    "two works, one after the other": (1 + 1 + 2) + (1 + 1 + 4),
    ACTING: ROUNDS * (1 + 1) + 1,
}
"""Of all rounds, back to the host: answers of a stack or of a device, their sum, and the losses of
each stack and of the step by which the memory of such is measured, once. Agents that act send
bytes, which the coordinator adds up."""


def learned(scenario: Scenario, folder: Path) -> Learned:
    make = InProcessEngine if asked_of_time(scenario) else LightEngine
    return learn(make, prepared(scenario), folder)


def learned_there(
    scenario: Scenario, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Learned, FakeAccelerator]:
    monkeypatch.setattr(training, "torch_device", lambda _asked: DEVICE)
    monkeypatch.setattr(memory, "_known", {})
    with FakeAccelerator() as fake:
        return learned(scenario, folder), fake


def assert_same(there: Learned, here: Learned) -> None:
    assert said(there.ledger) == said(here.ledger)
    assert means(there) == means(here)
    assert len(means(here)) == ROUNDS
    assert there.models == here.models


@pytest.mark.parametrize("name", FLEETS)
def test_entries_sums_weights_and_models_are_those_of_the_processor(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = learned(FLEETS[name], tmp_path / "here")
    there, fake = learned_there(FLEETS[name], tmp_path / "there", monkeypatch)
    assert_same(there, here)
    assert fake.seen.to_host == {BACK: COPIES[name]}
    assert all(record.seconds["waiting"] > 0 for record in there.records)
    assert all("waiting" not in record.seconds for record in here.records)


@pytest.mark.parametrize("latency", [20.0, 5.0], ids=["told", "acting"])
def test_looks_that_devices_share_are_in_the_ledger_as_those_of_each_alone(
    latency: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of devices that train and of those that only look; all else is equal to the last bit."""
    settings = {"preset": "without-psr", "memory_per_class": 3}
    engine, rounds = (
        {"latency_ms": latency, "training": "stack"},
        {"per_stage": ROUNDS, "cohort": 2},
    )
    fleet = small(
        **{**QUICK, "engine": engine, "rounds": rounds},
        method={"name": "lga", "settings": settings},
        devices={"count": 4},
    )
    here = learned(fleet, tmp_path / "here")
    shared: list[SharedInference] = []
    made = SharedInference.__init__

    def noted(self: SharedInference, looks: Mapping[str, Any]) -> None:
        shared.append(self)
        made(self, looks)

    monkeypatch.setattr(SharedInference, "__init__", noted)
    there, _ = learned_there(fleet, tmp_path / "there", monkeypatch)
    assert len(shared) == 2 * ROUNDS
    assert means(there) == means(here)
    assert there.models == here.models
    assert len(there.ledger) == len(here.ledger)
    for one, two in zip(there.records, here.records, strict=True):
        assert [replace_entropy(look) for look in one.novelty_checks] == [
            replace_entropy(look) for look in two.novelty_checks
        ]
    entropies = [
        [look.entropy for record in run.records for look in record.novelty_checks]
        for run in (there, here)
    ]
    assert entropies[0] == pytest.approx(entropies[1], rel=1e-5)
    assert len(entropies[0]) == 4 * ROUNDS


def replace_entropy(look: NoveltyCheckRecord) -> NoveltyCheckRecord:
    return look.model_copy(update={"entropy": 0.0})


PER_ROUND = {"stack": (6, 19, 21), "loop": (11, 17, 23)}
"""Copies out of the host's memory in a later round: the weights that are sent, twice; rows, labels
and masks; what chance draws; shares in the sum. In a loop rows and draws are copied by device. Then
those that were when samples were copied every time, with one local epoch and with three."""


@pytest.mark.parametrize("way", PER_ROUND)
@pytest.mark.parametrize("epochs", [1, 3])
def test_a_later_round_copies_rows_instead_of_samples_and_a_further_epoch_nothing(
    way: str, epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, *before = PER_ROUND[way]
    seed = 100 * epochs + len(way)  # of weights that no other test has left on the device
    fleet = small(
        **{**QUICK, "engine": {"training": way}},
        method={"settings": {"epochs": epochs, "seed": seed}},
    )
    monkeypatch.setattr(training, "torch_device", lambda _asked: DEVICE)
    monkeypatch.setattr(memory, "_known", {})
    seen: list[Counter[str]] = []
    with FakeAccelerator() as fake:
        noted = fake.seen.to_device
        learn(LightEngine, prepared(fleet), tmp_path, lambda _: seen.append(Counter(noted)))
    assert seen[-1].total() - seen[-2].total() == now < before[epochs > 1]
    assert [one[UPLOAD] for one in seen] == [1] * ROUNDS


def test_a_fleet_that_the_device_has_no_room_for_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resident, "free_bytes", lambda device: 0)
    here = learned(FLEETS["in a stack"], tmp_path / "here")
    there, fake = learned_there(FLEETS["in a stack"], tmp_path / "there", monkeypatch)
    assert_same(there, here)
    assert UPLOAD not in fake.seen.to_device
    assert sum("copied agent by agent" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("latency", [20.0, 5.0], ids=["told", "acting"])
def test_a_device_without_an_answer_is_in_no_sum(
    latency: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of one have left the numbers, and of another what goes with them fails."""
    answer, update = RoundsDevice.answer, RoundsDevice.update

    def diverged(self: RoundsDevice, assignment: Any, job: Any, trained: Any) -> Answer:
        made = answer(self, assignment, job, trained)
        if job.state.instruction.device != "device-1":
            return made
        worse = {name: values * float("nan") for name, values in made.weights.items()}
        return replace(made, weights=worse)

    def failed(self: RoundsDevice, told: Any, job: Any, trained: Any, data: bytes) -> ClientUpdate:
        if job.state.instruction.device == "device-2":
            raise MethodError("memory: cannot be made")
        return update(self, told, job, trained, data)

    monkeypatch.setattr(RoundsDevice, "answer", diverged)
    monkeypatch.setattr(RoundsDevice, "update", failed)
    engine = {"latency_ms": latency, "training": "stack"}
    fleet = small(**{**QUICK, "engine": engine}, data={"per_class": 40}, devices={"count": 12})
    here = learned(fleet, tmp_path / "here")
    there, _ = learned_there(fleet, tmp_path / "there", monkeypatch)
    assert_same(there, here)
    assert [len(body.counted) for body in there.bodies(RoundClosed)] == [10] * ROUNDS

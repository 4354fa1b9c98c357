"""Rounds with real agents and a real coordinator: a network is trained, exported, installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread

import pytest
import torch

from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.reports.history import sentence_of
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, ModelSolved
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.values import Digest
from tests.end_to_end.memory_fleet import MemoryDevice, put_pictures
from tests.end_to_end.round_fleet import BARS, Gate, RoundFleet, rules

pytestmark = pytest.mark.torch

NAMES = ("one", "three", "two")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def fleets() -> Iterator[list[RoundFleet]]:
    """Fleets that are closed at the end."""
    made: list[RoundFleet] = []
    yield made
    for fleet in made:
        fleet.close()


@pytest.fixture
def fleet(tmp_path: Path, fleets: list[RoundFleet]) -> RoundFleet:
    fleets.append(RoundFleet(tmp_path))
    return fleets[0]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open_all()


def three(fleet: RoundFleet) -> tuple[MemoryDevice, ...]:
    return tuple(fleet.add_with_bars(name, number) for number, name in enumerate(NAMES))


def evaluations(fleet: RoundFleet, version: int) -> list[Evaluation]:
    found = [body.evaluation for body in fleet.told(DeviceEvaluated)]
    return [evaluation for evaluation in found if evaluation.version == version]


def worst(fleet: RoundFleet, version: int, *names: str) -> float:
    """The smallest share of right answers to pictures of some classes, over the devices."""
    return min(
        sum(body.results[name].correct for name in names)
        / sum(body.results[name].total for name in names)
        for body in evaluations(fleet, version)
    )


def test_three_devices_train_a_network_through_two_stages_and_run_it_and_the_ledger_verifies(
    fleet: RoundFleet,
) -> None:
    devices = three(fleet)
    fleet.begin(*BARS)
    fleet.until(lambda: len(evaluations(fleet, 1)) == 3)
    assert worst(fleet, 1, *BARS) > 0.9
    for number, device in enumerate(devices[:2]):
        put_pictures(device.data, "spot", range(100 * number, 100 * number + 16))
    fleet.settle(0.5)
    fleet.coordinator.open("spot")
    fleet.until(lambda: len(evaluations(fleet, 2)) == 3)
    assert worst(fleet, 2, "spot") > 0.9
    assert [body.class_names for body in fleet.told(ModelSolved)] == [BARS, (*BARS, "spot")]
    assert [body.class_names for body in fleet.told(WeightsAveraged)] == [BARS] * 2 + [
        (*BARS, "spot")
    ] * 2
    assert [body.cohort for body in fleet.told(RoundOpened)] == [NAMES] * 4
    closed = fleet.told(RoundClosed)
    assert [len(body.counted) for body in closed] == [3, 3, 2, 2]
    assert [body.nothing for body in closed] == [(), (), ("two",), ("two",)]
    assert [body.reason for body in fleet.told(StageClosed)] == ["2 rounds"] * 2
    assert all(body.samples == 96 for body in fleet.told(WeightsAveraged)[:2])
    ledger = fleet.coordinator.engine.ledger
    report = verify(ledger, fleet.coordinator.blobs)
    assert report.ok, str(report)
    answers = [body.part for body in fleet.told(ContributionAccepted)]
    assert report.pruned == tuple(dict.fromkeys(body.payload for body in answers))
    told = list(map(sentence_of, ledger.entries()))
    assert any("Round 1 (stage 1, 1 of 2) asks one, three, two to train" in text for text in told)
    assert any("Round 2 closed because of everybody answered: 3 answers count." in t for t in told)
    assert not [text for text in told if " recorded " in text]


@pytest.mark.nightly
def test_a_device_that_drops_out_holds_its_round_to_the_deadline_and_is_back_in_a_later_one(
    tmp_path: Path, fleets: list[RoundFleet], gate: Gate
) -> None:
    fleet = RoundFleet(tmp_path, rounds=rules(per_stage=4, deadline_seconds=12.0))
    fleets.append(fleet)
    *_, device = three(fleet)
    gate.hold("two", 1)
    fleet.begin(*BARS)
    fleet.until(lambda: gate.waits("two", 1) and len(fleet.told(ContributionAccepted)) == 2)
    device.stop()
    gate.hold("one", 2)
    fleet.until(lambda: fleet.told(WeightsAveraged))
    (closed,) = fleet.told(RoundClosed)
    assert (closed.reason, closed.missing) == ("deadline of 12 s", ("two",))
    fleet.until(lambda: gate.waits("one", 2))
    gate.open("two", 1)
    device.start()
    fleet.until(lambda: fleet.is_there("two"))
    gate.open("one", 2)
    fleet.until(lambda: fleet.told(StageClosed))
    cohorts = [body.cohort for body in fleet.told(RoundOpened)]
    assert cohorts == [NAMES, ("one", "three"), NAMES, NAMES]
    assert [len(body.counted) for body in fleet.told(RoundClosed)] == [2, 2, 3, 3]


def test_a_device_that_joins_in_the_middle_of_a_stage_is_in_its_next_round(
    fleet: RoundFleet, gate: Gate
) -> None:
    three(fleet)
    gate.hold("one", 1)
    fleet.begin(*BARS)
    fleet.until(lambda: gate.waits("one", 1))
    fleet.join(fleet.add_with_bars("zwei", 9))
    gate.open("one", 1)
    fleet.until(lambda: fleet.told(StageClosed))
    assert [body.cohort for body in fleet.told(RoundOpened)] == [NAMES, (*NAMES, "zwei")]
    assert [len(body.counted) for body in fleet.told(RoundClosed)] == [3, 4]


@pytest.mark.nightly
def test_an_answer_after_the_deadline_is_recorded_as_late_and_left_out(
    tmp_path: Path, fleets: list[RoundFleet], gate: Gate
) -> None:
    fleet = RoundFleet(tmp_path, rounds=rules(per_stage=1, deadline_seconds=6.0))
    fleets.append(fleet)
    three(fleet)
    gate.hold("two", 1)
    fleet.begin(*BARS)
    fleet.until(lambda: gate.waits("two", 1))
    # Cut off, it does not hear that the round was closed without it.
    fleet.devices["two"].cut_off()
    fleet.until(lambda: fleet.told(WeightsAveraged))
    gate.open("two", 1)
    fleet.until(lambda: fleet.devices["two"].outbox == 1)
    fleet.devices["two"].reconnect()
    fleet.until(lambda: len(fleet.told(ContributionAccepted)) == 3)
    answers = {
        entry.device: (entry.index, entry.body["late"])
        for entry in fleet.coordinator.engine.ledger.find(ContributionAccepted)
    }
    assert {device: late for device, (_, late) in answers.items()} == {
        "one": False,
        "three": False,
        "two": True,
    }
    (averaged,) = fleet.told(WeightsAveraged)
    assert averaged.inputs == tuple(sorted((answers["one"][0], answers["three"][0])))


def test_weights_that_are_not_finite_never_leave_a_device_which_says_why(
    tmp_path: Path, fleets: list[RoundFleet]
) -> None:
    fleet = RoundFleet(tmp_path, rounds=rules(pause_seconds=60.0), rate=1e30)
    fleets.append(fleet)
    three(fleet)
    fleet.begin(*BARS)
    fleet.until(lambda: fleet.told(RoundClosed) and len(fleet.told(DeviceProblem)) == 3)
    (closed,) = fleet.told(RoundClosed)
    assert (closed.counted, closed.failed, closed.missing) == ((), NAMES, ())
    reasons = [body.nothing.reason for body in fleet.told(NothingReported)]
    assert len(reasons) == 3
    assert all("train with a lower rate" in reason for reason in reasons), reasons
    assert all("train with a lower rate" in body.text for body in fleet.told(DeviceProblem))
    assert not fleet.told(ContributionAccepted)
    assert not fleet.told(WeightsAveraged)


@pytest.mark.nightly
def test_a_large_network_travels_in_blocks_both_ways_and_its_files_do_not_stay(
    tmp_path: Path, fleets: list[RoundFleet]
) -> None:
    fleet = RoundFleet(tmp_path, rounds=rules(per_stage=2), network="resnet8", epochs=1)
    fleets.append(fleet)
    devices = three(fleet)
    fleet.begin(*BARS)
    fleet.until(lambda: len(evaluations(fleet, 1)) == 3)
    answers = [body.part for body in fleet.told(ContributionAccepted)]
    assert len(answers) == 6
    assert all(body.payload_bytes > INLINE_LIMIT for body in answers)
    assert all(body.weights.size > INLINE_LIMIT for body in fleet.told(RoundOpened))
    fleet.until(lambda: all(device.outbox == 0 for device in devices))
    first, last = (body.weights.digest for body in fleet.told(RoundOpened))
    over = {first, *(body.payload for body in answers)}
    fleet.until(lambda: not any(device.files() & over for device in devices))
    assert all(last in device.files() for device in devices), "until another order replaces it"


def weights_of(fleet: RoundFleet) -> list[tuple[Digest, Digest]]:
    return [(body.aggregate, body.weights.digest) for body in fleet.told(WeightsAveraged)]


def test_a_coordinator_that_is_killed_comes_to_the_same_weights(
    tmp_path: Path, fleets: list[RoundFleet]
) -> None:
    calm = RoundFleet(tmp_path / "calm")
    fleets.append(calm)
    three(calm)
    calm.begin(*BARS)
    calm.until(lambda: calm.told(StageClosed))
    stormy = RoundFleet(tmp_path / "stormy")
    fleets.append(stormy)
    three(stormy)
    stormy.begin(*BARS)
    stormy.until(lambda: len(stormy.told(WeightsAveraged)) == 1)
    stormy.restart_coordinator()  # between two rounds
    stormy.until(lambda: len(stormy.told(RoundClosed)) == 2)
    state = stormy.coordinator.engine.core.state
    assert not state.rounds.by_number[2].done
    stormy.restart_coordinator()  # while the second round is averaged
    stormy.until(lambda: stormy.told(StageClosed))
    assert weights_of(stormy) == weights_of(calm)


def without_torch(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """Let one device find no torch; its agent runs in a thread of its name."""

    def found(name: str) -> object:
        return None if (name, current_thread().name) == ("torch", device) else find_spec(name)

    monkeypatch.setattr("fleetledger.device_agent.program.capabilities.find_spec", found)


@pytest.mark.nightly
def test_a_device_without_torch_is_not_asked_and_says_so(
    fleet: RoundFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, device = three(fleet)
    without_torch(monkeypatch, "two")
    fleet.begin(*BARS)
    fleet.until(lambda: len(evaluations(fleet, 1)) == 3)
    assert [body.cohort for body in fleet.told(RoundOpened)] == [("one", "three")] * 2
    (closed,) = fleet.told(StageClosed)
    assert (closed.answered, closed.expected) == (2, 2)
    fleet.until(lambda: "torch" in device.status().training)
    assert "round 2 is answered" in fleet.devices["one"].status().training


def test_a_network_with_a_successor_freezes_and_statistics_go_on_without_torch(
    tmp_path: Path, fleets: list[RoundFleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = RoundFleet.with_first_stage(tmp_path)
    fleets.append(fleet)
    devices = three(fleet)
    without_torch(monkeypatch, "two")
    fleet.begin(*BARS)
    fleet.until(lambda: fleet.told(ModelSolved))
    version = fleet.told(ModelSolved)[-1].version
    fleet.until(lambda: len(evaluations(fleet, version)) == 3)
    assert worst(fleet, version, *BARS) > 0.9
    (frozen,) = fleet.told(BackboneImported)
    assert frozen.method == "stsa"
    for device in devices:
        put_pictures(device.data, "spot", range(16))
    fleet.settle(0.5)
    fleet.coordinator.open("spot")
    fleet.until(lambda: "spot" in fleet.told(ModelSolved)[-1].class_names)
    version = fleet.told(ModelSolved)[-1].version
    fleet.until(lambda: len(evaluations(fleet, version)) == 3)
    assert worst(fleet, version, *BARS, "spot") > 0.8
    assert {body.stage for body in fleet.told(RoundOpened)} == {1}
    assert {
        item.device for item in fleet.coordinator.engine.core.state.contributions.counted.values()
    } == set(NAMES)
    report = verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs)
    assert report.ok, str(report)

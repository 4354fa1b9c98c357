"""Answers of a round are added as they come, and the mean takes their sum or reads them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.work import AverageRound, TakePayload
from fleetledger.coordinator.models import network_maker
from fleetledger.coordinator.models.round_sum import RoundSum
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.rounds.state import RoundAnswered
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.client_updates import Mean, UpdateFrame, UpdateSum
from fleetledger.methods.training.exchange import CountedUpdate, Summing
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import contribution
from tests.coordinator.core.round_bench import NETWORK
from tests.coordinator.models.pixel_desk import PixelDesk

SENT = {"layer.weight": np.linspace(-1, 1, 300, dtype=np.float32).reshape(20, 15)}
FRAME = UpdateFrame(SENT)
DEVICES = tuple(DeviceId(f"dev-{number}") for number in range(1, 5))


def opened(number: int = 1) -> RoundOpened:
    return RoundOpened(
        number=number,
        stage=1,
        round_of_stage=number,
        rounds_of_stage=5,
        cohort=DEVICES,
        weights=NETWORK.weights,
        weights_class_names=(),
        class_names=(ClassName("cat"),),
        seed=1,
        deadline_seconds=1.0,
    )


def payload_of(device: DeviceId, step: float = 0.01) -> bytes:
    """An answer that no other device gives."""
    far = np.float32(step * (1 + DEVICES.index(device)))
    return FRAME.encode({name: array + far for name, array in SENT.items()})


def taken(device: DeviceId, payload: bytes, number: int = 1) -> TakePayload:
    """A request for an answer of as many samples as the device's number."""
    samples = {ClassName("cat"): 1 + DEVICES.index(device)}
    given = contribution("answer", samples=dict(samples)).model_copy(
        update={"payload": Digest.of(payload), "payload_bytes": len(payload)}
    )
    return TakePayload(device, given, b"", NETWORK, opened(number))


def asked(*devices: DeviceId, number: int = 1) -> AverageRound:
    """A request for the mean of what these devices gave."""
    inputs = tuple(
        RoundAnswered(place, Digest.of(payload_of(device)), 1 + DEVICES.index(device))
        for place, device in enumerate(devices)
    )
    return AverageRound(NETWORK, opened(number), inputs)


def begin() -> Summing:
    return FRAME.summing(len(DEVICES), weighted=True)


def mean_of(total: Summing | None) -> Mean:
    assert isinstance(total, UpdateSum)
    return total.mean()


@pytest.fixture
def total() -> RoundSum:
    """The sum of all devices' answers, which came in another order than the mean lists them."""
    made = RoundSum()
    for device in reversed(DEVICES):
        made.add(taken(device, payload_of(device)), payload_of(device), begin)
    return made


def test_the_sum_gives_the_mean_that_reading_every_answer_gives(total: RoundSum) -> None:
    found = mean_of(total.take(asked(*DEVICES)))
    read = FRAME.mean(
        [
            CountedUpdate(place + 1, lambda device=device: payload_of(device))  # type: ignore[misc]
            for place, device in enumerate(DEVICES)
        ],
        weighted=True,
    )
    assert (found.aggregate, found.samples) == (read.aggregate, read.samples)
    assert found.client_drift == read.client_drift
    assert all((found.arrays[name] == read.arrays[name]).all() for name in SENT)


def test_an_answer_that_comes_again_is_added_once(total: RoundSum) -> None:
    total.add(taken(DEVICES[0], payload_of(DEVICES[0])), payload_of(DEVICES[0]), begin)
    assert mean_of(total.take(asked(*DEVICES))).samples == 1 + 2 + 3 + 4


def test_answers_that_do_not_count_have_the_others_read_again(total: RoundSum) -> None:
    assert total.take(asked(*DEVICES[:3])) is None


def test_answers_that_count_with_another_weight_are_read_again(total: RoundSum) -> None:
    request = asked(*DEVICES)
    halved = tuple(RoundAnswered(item.index, item.payload, 1) for item in request.inputs)
    assert total.take(AverageRound(NETWORK, request.opened, halved)) is None


def test_answers_of_before_a_restart_are_read_again() -> None:
    made = RoundSum()
    for device in DEVICES[1:]:
        made.add(taken(device, payload_of(device)), payload_of(device), begin)
    assert made.take(asked(*DEVICES)) is None


def test_a_device_that_answers_anew_has_all_read_again(total: RoundSum) -> None:
    other = payload_of(DEVICES[0], 0.02)
    total.add(taken(DEVICES[0], other), other, begin)
    assert total.take(asked(*DEVICES)) is None


def test_a_new_round_begins_from_nothing_and_what_comes_late_is_not_added(total: RoundSum) -> None:
    first, second = DEVICES[:2]
    total.add(taken(first, payload_of(first), 2), payload_of(first), begin)
    total.add(taken(second, payload_of(second), 1), payload_of(second), begin)
    assert mean_of(total.take(asked(first, number=2))).samples == 1

    def refuse() -> Summing:
        raise AssertionError("the round is over")

    total.add(taken(second, payload_of(second), 2), payload_of(second), refuse)
    assert total.take(asked(first, second, number=2)) is None


@pytest.mark.parametrize("where", ["begin", "add"])
def test_what_cannot_be_added_is_left_to_the_mean(where: str) -> None:
    def fail() -> Summing:
        raise MethodError("no sum of these is exact")

    made = RoundSum()
    first, second = DEVICES[:2]
    broken = payload_of(first) if where == "begin" else b"no tensors"
    made.add(taken(first, broken), broken, fail if where == "begin" else begin)
    made.add(taken(second, payload_of(second)), payload_of(second), begin)
    assert made.take(asked(first, second)) is None


def test_the_mean_of_a_round_reads_no_answer_that_was_just_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> CountedUpdate:
        raise AssertionError("an answer is read again")

    monkeypatch.setattr(network_maker, "_given", refuse)
    desk = PixelDesk(tmp_path)
    try:
        desk.learn("circle")
        (averaged,) = desk.coordinator.engine.ledger.find(WeightsAveraged)
        assert WeightsAveraged.model_validate(averaged.body).samples == 5
    finally:
        desk.close()

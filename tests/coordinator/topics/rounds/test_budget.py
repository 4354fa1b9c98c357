"""Noise of rounds: how many answers share it, and what each of them spends of a device's budget."""

from __future__ import annotations

from typing import Any

import pytest

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds import budget
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.learning.privacy.accounting import Spending, epsilon_of
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import offer
from tests.coordinator.core.round_bench import ABLE, NETWORK, RoundBench

DELTA = 1e-3


def private(**privacy: Any) -> NetworkImported:
    given = UpdatePrivacy.model_validate({"clip": 1.0, "delta": DELTA} | privacy)
    return NETWORK.model_copy(update={"answer_privacy": given})


def of_answers(noise: float, answers: int) -> float:
    return epsilon_of([Spending(noise, answers)], DELTA)


def whole(bench: RoundBench, number: int) -> None:
    """Let everybody who is asked answer, and the mean be made."""
    (opened,) = (b for b in bench.told(RoundOpened) if b.number == number)  # type: ignore[attr-defined]
    for device in opened.cohort:  # type: ignore[attr-defined]
        bench.answer(device, number)
    bench.wait(0)
    bench.average(bench.asked_for(AverageRound))  # type: ignore[arg-type]
    bench.wait(0)


def test_a_round_with_fewer_answers_than_share_the_noise_comes_to_nothing() -> None:
    network = private(noise=1.0, where="cohort", least=3)
    bench = RoundBench(devices=4, quorum=0.1)
    bench.lead(network)
    for device in bench.devices[:2]:
        bench.answer(device, 1)
    bench.wait(101)
    closed = bench.told(RoundClosed)[-1]
    assert isinstance(closed, RoundClosed)
    assert closed.counted == ()
    assert closed.reason.endswith("with 2 of 3 answers needed")


def test_a_round_waits_for_as_many_devices_as_share_the_noise() -> None:
    network = private(noise=1.0, where="cohort", least=4)
    bench = RoundBench(devices=3)
    assert bench.orders(bench.lead(network)) == {}
    assert not bench.told(RoundOpened)
    bench.devices += ("dev-4",)
    bench.command(AdmitDevice(device=DeviceId("dev-4")))
    bench.born("dev-4", capabilities=ABLE)
    assert len(bench.orders(bench.wait(0))) == 4


def test_each_answer_spends_the_same_and_the_ledger_says_how_much() -> None:
    bench = RoundBench(devices=4, cohort=2, per_stage=5)
    bench.lead(private(noise=4.0))
    for number in range(1, 6):
        whole(bench, number)
    answers = dict.fromkeys(bench.devices, 0)
    for opened in bench.told(RoundOpened):
        assert isinstance(opened, RoundOpened)
        for device in opened.cohort:
            answers[device] += 1
    assert sum(answers.values()) == 10
    assert len(set(answers.values())) > 1
    for device, count in answers.items():
        told = budget.spent(bench.core.state, DeviceId(device))
        assert told == pytest.approx(of_answers(4.0, count))
    bench.restart()
    again: State = bench.core.state
    for device, count in answers.items():
        assert budget.spent(again, DeviceId(device)) == pytest.approx(of_answers(4.0, count))


def test_a_device_that_has_spent_its_budget_is_not_asked_and_the_stage_ends_with_the_last() -> None:
    epsilon = of_answers(4.0, 2) * 1.001
    bench = RoundBench(devices=4, cohort=2, per_stage=50)
    bench.lead(private(noise=4.0, epsilon=epsilon))
    number = 0
    while not bench.told(StageClosed):
        number += 1
        whole(bench, number)
        assert number <= 8
    asked = [d for b in bench.told(RoundOpened) for d in b.cohort]  # type: ignore[attr-defined]
    assert sorted(asked) == sorted(2 * bench.devices)
    (closed,) = bench.told(StageClosed)
    assert isinstance(closed, StageClosed)
    assert closed.reason == (f"every device has spent its budget of privacy, after {number} rounds")
    assert budget.overspent(bench.core.state) is None


def test_another_network_begins_no_new_budget() -> None:
    epsilon = of_answers(4.0, 3) * 1.001
    bench = RoundBench(devices=2, per_stage=9)
    bench.lead(private(noise=4.0, epsilon=epsilon))
    whole(bench, 1)
    whole(bench, 2)
    other = private(noise=2.9, epsilon=epsilon).model_copy(update={"weights": offer("others")})
    bench.imports(other)
    state = bench.core.state
    assert budget.spent(state, DeviceId("dev-1")) == pytest.approx(of_answers(4.0, 2))
    assert not budget.affords(state, DeviceId("dev-1"))
    assert budget.affords(state, DeviceId("dev-9"))
    state.rounds.spent[DeviceId("dev-1")] = 3.1 / 16
    found = budget.overspent(state)
    assert found is not None
    assert found[0] == "dev-1"
    assert found[1] > epsilon


def test_without_noise_nothing_is_spent() -> None:
    bench = RoundBench(per_stage=2)
    bench.lead(private())
    whole(bench, 1)
    assert bench.core.state.rounds.spent == {}
    assert budget.spent(bench.core.state, DeviceId("dev-1")) is None
    assert budget.affords(bench.core.state, DeviceId("dev-1"))


def test_an_answer_beyond_the_budget_is_refused() -> None:
    epsilon = of_answers(4.0, 2) * 1.001
    bench = RoundBench(devices=2, per_stage=9)
    bench.lead(private(noise=4.0, epsilon=epsilon))
    whole(bench, 1)
    device = DeviceId("dev-1")
    bench.core.state.rounds.spent[device] += (
        1 / 16
    )  # as by an answer behind masks that did not count
    refused = bench.answer("dev-1", 2).answer
    assert isinstance(refused, Refused)
    assert refused.reason.startswith(
        f"privacy: with this answer the device would spend more than epsilon {epsilon:g}"
    )
    assert isinstance(bench.answer("dev-2", 2).answer, Accepted)

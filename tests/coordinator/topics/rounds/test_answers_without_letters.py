"""Answers that come without a letter: no receipt, the same entry, refusals told in any case."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.assignments import assignment_for, round_assignment
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.receipts import Later
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import receipt
from tests.coordinator.core.round_bench import RoundBench, sent, update_of

FIRST, SECOND = DeviceId("dev-1"), DeviceId("dev-2")


def test_nobody_waits_for_a_receipt_and_the_entry_is_the_same() -> None:
    bench = RoundBench()
    bench.lead()
    (taken,) = [
        r for r in bench.message("dev-1", update_of(1, "dev-1")) if isinstance(r, TakePayload)
    ]
    assert bench.handle(inputs.PayloadOutcome(FIRST, taken.contribution, waits=False)) == []
    bench.answer("dev-2", text="dev-1")
    one, two = bench.told(ContributionAccepted)
    assert one == two
    assert bench.core.state.rounds.by_number[1].answers.keys() == {FIRST, SECOND}


def test_a_refusal_is_told_in_any_case() -> None:
    bench = RoundBench()
    bench.lead()
    stranger = inputs.PayloadOutcome(DeviceId("stranger"), update_of(1, "x"), waits=False)
    assert isinstance(receipt(bench.handle(stranger)).answer, Later)


def test_everybody_who_is_asked_is_told_what_each_would_be_told() -> None:
    bench = RoundBench()
    told = sent(bench.lead(), Assignment)
    state = bench.core.state
    asked = state.rounds.by_number[1]
    opened = asked.opened
    assert len([body for body in told if body.round is not None]) == len(opened.cohort) == 3
    for device in opened.cohort:
        assert assignment_for(state, device) == round_assignment(state, asked)
        assert round_assignment(state, asked) in told

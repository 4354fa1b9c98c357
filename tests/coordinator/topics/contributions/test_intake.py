"""Data is counted once, and everything that a device gives ends in a receipt."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import SendToDevice
from fleetledger.coordinator.core.rules import IntakeRules, Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.schemas.contributions import Nothing, PartKey, Withdrawal
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Later, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import Bench, contribution, receipt, sent

KEY = PartKey(stage=1, part=0)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    return bench


def held_payloads(bench: Bench) -> set[Digest]:
    return {item.payload for item in bench.core.state.contributions.counted.values()}


def test_a_contribution_is_accepted_with_the_index_of_its_entry(bench: Bench) -> None:
    index = len(bench.entries)
    answer = bench.give("dev-1", contribution("a")).answer
    assert answer == Accepted(ledger_index=index)
    assert bench.entries[index][0].kind == "contribution.accepted"


def test_a_repeat_gets_the_stored_receipt_and_no_second_entry(bench: Bench) -> None:
    first = bench.give("dev-1", contribution("a"))
    size = len(bench.entries)
    assert bench.give("dev-1", contribution("a")) == first
    assert len(bench.entries) == size


def test_a_repeat_while_the_payload_is_on_its_way_asks_for_nothing_twice(bench: Bench) -> None:
    assert any(isinstance(r, TakePayload) for r in bench.message("dev-1", contribution("a")))
    assert bench.message("dev-1", contribution("a")) == []


def test_a_higher_revision_replaces_the_part(bench: Bench) -> None:
    bench.give("dev-1", contribution("a"))
    answer = bench.give("dev-1", contribution("b", revision=1)).answer
    assert isinstance(answer, Accepted)
    assert held_payloads(bench) == {Digest.of(b"b")}


def test_an_old_revision_that_arrives_late_changes_nothing(bench: Bench) -> None:
    bench.give("dev-1", contribution("b", revision=1))
    answer = bench.give("dev-1", contribution("a", revision=0)).answer
    assert isinstance(answer, Refused)
    assert "revision 1" in answer.reason
    assert held_payloads(bench) == {Digest.of(b"b")}


def test_the_same_revision_with_another_payload_is_refused(bench: Bench) -> None:
    bench.give("dev-1", contribution("a"))
    answer = bench.give("dev-1", contribution("b")).answer
    assert isinstance(answer, Refused)
    assert held_payloads(bench) == {Digest.of(b"a")}


def test_a_withdrawn_part_leaves_the_sum_and_may_come_back_with_a_higher_revision(
    bench: Bench,
) -> None:
    bench.give("dev-1", contribution("a"))
    withdrawal = Withdrawal(key=KEY, revision=1, reason="reinstalled")
    answer = receipt(bench.message("dev-1", withdrawal)).answer
    assert isinstance(answer, Accepted)
    assert held_payloads(bench) == set()
    assert receipt(bench.message("dev-1", withdrawal)).answer == answer
    assert isinstance(bench.give("dev-1", contribution("a", revision=1)).answer, Refused)
    assert isinstance(bench.give("dev-1", contribution("a", revision=2)).answer, Accepted)


def test_a_reinstalled_device_is_told_what_is_held_and_which_part_numbers_are_free(
    bench: Bench,
) -> None:
    bench.give("dev-1", contribution("a", part=0))
    bench.give("dev-1", contribution("b", part=4))
    (welcome,) = sent(bench.born("dev-1"), Welcome)
    assert isinstance(welcome, Welcome)
    assert [held.key.part for held in welcome.held] == [0, 4]
    assert welcome.next_part == 5


def test_withdrawing_a_part_that_was_never_held_is_refused(bench: Bench) -> None:
    withdrawal = Withdrawal(key=PartKey(stage=1, part=9), revision=1, reason="?")
    answer = receipt(bench.message("dev-1", withdrawal)).answer
    assert isinstance(answer, Refused)
    assert "part 9" in answer.reason


def test_a_late_contribution_to_a_closed_stage_counts(bench: Bench) -> None:
    bench.give("dev-1", contribution("a"))
    bench.give("dev-2", contribution("b"))
    bench.wait(31)
    assert bench.core.state.stages.by_number[1].closed_index is not None
    answer = bench.give("dev-1", contribution("late", part=1)).answer
    assert isinstance(answer, Accepted)
    assert len(bench.core.state.contributions.inputs()) == 3


def test_a_payload_that_the_method_refuses_ends_in_a_refusal_with_the_reason(bench: Bench) -> None:
    (request,) = bench.message("dev-1", contribution("bad"))
    assert isinstance(request, TakePayload)
    requests = bench.handle(
        inputs.PayloadOutcome(
            DeviceId("dev-1"), request.contribution, "unusable", "gram: NaN at (0, 0)"
        )
    )
    assert receipt(requests).answer == Refused(reason="gram: NaN at (0, 0)")
    assert bench.core.state.contributions.counted == {}


def test_a_payload_that_cannot_be_fetched_is_asked_for_again(bench: Bench) -> None:
    (request,) = bench.message("dev-1", contribution("slow"))
    assert isinstance(request, TakePayload)
    requests = bench.handle(
        inputs.PayloadOutcome(DeviceId("dev-1"), request.contribution, "missing", "deadline")
    )
    assert isinstance(receipt(requests).answer, Later)
    assert isinstance(bench.give("dev-1", contribution("slow")).answer, Accepted)


def said_of(row: str) -> str:
    """What the documentation's table says of a refusal: `later` or `final`."""
    page = Path("docs/coordinator.md").read_text("utf-8")
    lines = page.partition("## Final, or later")[2].splitlines()
    (line,) = [line for line in lines if line.startswith("|") and row in line]
    return line.split("|")[-2].strip()


@pytest.mark.parametrize(
    ("changes", "words", "row"),
    [
        ({"stage": 7}, "stage: 7 was never opened", "stage that was never opened"),
        ({"method": "fedavg"}, "method: 'fedavg'", "method that does not lead"),
        (
            {"lineage": "0" * 64},
            "lineage: features of frozen model 000000000000",
            "frozen model",
        ),
        ({"samples": {"zebra": 1}}, "class 'zebra' is not registered", "class that is not"),
        ({"samples": {"cat": 10_001}}, "samples: 10001 exceed 10000", "more than a part"),
        ({"payload_kind": "weights"}, "with 'stsa' devices give statistics", "wrong kind"),
    ],
)
def test_a_contribution_that_does_not_fit_is_answered_as_the_table_says(
    bench: Bench, changes: dict[str, object], words: str, row: str
) -> None:
    answer = bench.give("dev-1", contribution("a", **changes)).answer  # type: ignore[arg-type]
    assert isinstance(answer, Later if said_of(row) == "later" else Refused)
    assert words in answer.reason


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("not admitted, or retired", "later"),
        ("two installations", "later"),
        ("quota", "later"),
        ("revision superseded", "final"),
        ("retracted by the operator", "final"),
        ("answer to a round", "final"),
    ],
)
def test_the_table_has_a_row_for_what_other_tests_show(row: str, expected: str) -> None:
    assert said_of(row) == expected


def test_an_unknown_device_is_put_off_with_the_command_that_admits_it(bench: Bench) -> None:
    answer = bench.give("stranger", contribution("a")).answer
    assert isinstance(answer, Later)
    assert "fleetledger coordinator admit stranger" in answer.reason
    assert bench.core.state.contributions.counted == {}


def test_a_message_of_an_unknown_schema_is_answered_with_a_problem(bench: Bench) -> None:
    sender = bench.senders[DeviceId("dev-1")]
    envelope = sender.seal(contribution("a"), sent_ms=0)
    broken = envelope.header.model_copy(update={"body": {"key": {"stage": "one", "part": 0}}})
    requests = bench.handle(
        inputs.DeviceMessage(DeviceId("dev-1"), type(envelope)(header=broken, attachment=b""))
    )
    (problem,) = sent(requests, Problem)
    assert isinstance(problem, Problem)
    assert "key.stage" in problem.text
    assert "'one'" in problem.text


def test_a_device_cannot_speak_on_the_topic_of_another(bench: Bench) -> None:
    envelope = bench.senders[DeviceId("dev-1")].seal(contribution("a"), sent_ms=0)
    requests = bench.handle(inputs.DeviceMessage(DeviceId("dev-2"), envelope))
    assert not any(isinstance(r, TakePayload) for r in requests)
    assert bench.core.state.contributions.counted == {}


def test_refusals_are_limited_per_minute() -> None:
    bench = Bench(Rules(intake=IntakeRules(refusals_per_minute=3)))
    bench.begin("dev-1")
    wrong = {"payload_kind": "weights"}
    answered = [bench.message("dev-1", contribution("a", part=n, **wrong)) for n in range(5)]
    assert [len(requests) for requests in answered] == [1, 1, 1, 0, 0]
    bench.wait(61)
    assert len(bench.message("dev-1", contribution("a", **wrong))) == 1


def test_more_payloads_than_allowed_at_a_time_wait(bench: Bench) -> None:
    for part in range(4):
        bench.message("dev-1", contribution("a", part=part))
    assert isinstance(receipt(bench.message("dev-1", contribution("a", part=4))).answer, Later)


def test_nothing_is_recorded_once(bench: Bench) -> None:
    first = receipt(bench.message("dev-1", Nothing(stage=1)))
    size = len(bench.entries)
    assert receipt(bench.message("dev-1", Nothing(stage=1))) == first
    assert len(bench.entries) == size


def test_every_order_and_duplication_of_revisions_ends_with_the_same_parts() -> None:
    messages = [
        ("dev-1", contribution("a0")),
        ("dev-1", contribution("a1", revision=1)),
        ("dev-1", contribution("b", part=1)),
        ("dev-2", contribution("c", samples={"dog": 2})),
    ]
    outcomes = set()
    for order in itertools.permutations(messages):
        bench = Bench()
        bench.begin("dev-1", "dev-2")
        for device, body in [*order, *order[::-1]]:
            bench.give(device, body)
        outcomes.add(frozenset(held_payloads(bench)))
    assert outcomes == {frozenset({Digest.of(b"a1"), Digest.of(b"b"), Digest.of(b"c")})}


def test_replaying_the_entries_gives_the_state_that_the_rules_saw() -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    generator = random.Random(1)
    for number in range(60):
        device = generator.choice(("dev-1", "dev-2"))
        part, revision = generator.randrange(4), generator.randrange(5)
        if generator.random() < 0.2:
            body = Withdrawal(key=PartKey(stage=1, part=part), revision=revision, reason="x")
            bench.message(device, body)
        else:
            bench.give(device, contribution(f"{number}", part=part, revision=revision))
    replayed = State()
    for entry, device_id, time_ns in bench.entries:
        replayed.apply(entry, device_id, time_ns)
    assert replayed == bench.core.state


def test_a_receipt_is_sent_to_the_device_that_asked(bench: Bench) -> None:
    requests = bench.message("dev-2", Nothing(stage=1))
    assert [r.device for r in requests if isinstance(r, SendToDevice)] == [DeviceId("dev-2")]

"""The verdict of all gates together, and traps that others have fallen into."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Scope
from fleetledger.coordinator.topics.rollouts.verdict import judge
from fleetledger.schemas.rollouts import ModelComparison
from tests.coordinator.topics.rollouts.reports import (
    FIRST_GROUP,
    SECOND_GROUP,
    comparison,
    device,
    evidence_of,
    pairs,
)

LIMITS = GatePlan()


def test_a_model_that_keeps_its_word_passes() -> None:
    verdict = judge(LIMITS, evidence_of(*[comparison({"fig": pairs(1, 1)})] * 15), SECOND_GROUP)
    assert (verdict.outcome, verdict.reason) == (
        "pass",
        "No gate fails; too little to tell: entropy, latency.",
    )
    assert [finding.gate for finding in verdict.gates] == [
        "health",
        "no_class_lost",
        "retention",
        "entropy",
        "latency",
    ]


def test_the_first_group_only_tries_whether_it_runs() -> None:
    evidence = evidence_of(comparison({"fig": pairs(0, 0)}))
    assert judge(LIMITS, evidence, FIRST_GROUP).outcome == "pass"
    verdict = judge(LIMITS, evidence, SECOND_GROUP)
    assert verdict.outcome == "inconclusive"
    assert "too little to pass" in verdict.reason


def test_a_first_device_on_which_it_does_not_run_holds_the_rollout() -> None:
    evidence = Evidence()
    evidence.fail(0, device(0))
    verdict = judge(LIMITS, evidence, FIRST_GROUP)
    assert verdict.outcome == "inconclusive"
    assert "It came to run nowhere." in verdict.reason


def test_a_first_device_that_half_forgot_holds_the_rollout_where_images_speak() -> None:
    evidence = evidence_of(comparison({"fig": pairs(16, 0)}))
    assert judge(LIMITS, evidence, FIRST_GROUP).outcome == "pass"
    verdict = judge(GatePlan(alike=1), evidence, FIRST_GROUP)
    assert verdict.outcome == "inconclusive"
    assert "if at most 1 of them show the same thing" in verdict.reason


def test_a_small_fleet_is_for_a_person_who_is_told_how_many_devices_are_needed() -> None:
    verdict = judge(LIMITS, evidence_of(*[comparison({"fig": pairs(0, 0, 100)})] * 5), SECOND_GROUP)
    assert verdict.outcome == "inconclusive"
    assert "5 devices have images, and 15 are needed to tell by themselves." in verdict.reason


def test_where_a_gate_fails_the_others_do_not_matter() -> None:
    bad = comparison({"fig": pairs(3, 0)}, agreed=(1, 100))
    verdict = judge(LIMITS, evidence_of(*[bad] * 18), SECOND_GROUP)
    assert verdict.outcome == "fail"
    assert not verdict.rests_on_one
    assert "unlabelled" not in verdict.reason


def test_one_device_alone_never_decides() -> None:
    slow = comparison(latency=((0, 200), (*[0] * 150, 200)), memory=(10, 100))
    verdict = judge(LIMITS, evidence_of(slow), FIRST_GROUP)
    assert (verdict.outcome, verdict.rests_on_one) == ("fail", True)


def test_a_second_device_that_says_the_same_makes_it_more_than_one() -> None:
    slow = comparison(memory=(10, 100))
    pair = replace(FIRST_GROUP, members=2)
    verdict = judge(LIMITS, evidence_of(slow, slow), pair)
    assert (verdict.outcome, verdict.rests_on_one) == ("fail", False)


def test_what_devices_cannot_measure_asks_nothing() -> None:
    limits = GatePlan(min_images=0)
    assert judge(limits, evidence_of(*[comparison()] * 5), SECOND_GROUP).outcome == "pass"


@pytest.mark.parametrize("seed", range(5))
def test_a_verdict_does_not_depend_on_the_order_of_reports(seed: int) -> None:
    numbers = random.Random(seed)

    def report() -> ModelComparison:
        return comparison(
            {name: pairs(numbers.choice([0, 0, 1, 4]), numbers.choice([0, 1])) for name in "ab"},
            memory=(100, numbers.randrange(90, 150)),
        )

    reports = [(device(number), report()) for number in range(30)]
    verdicts = []
    for _ in range(4):
        numbers.shuffle(reports)
        evidence = Evidence()
        for index, (one, compared) in enumerate(reports):
            evidence.compare(index, one, compared)
            judge(LIMITS, evidence, SECOND_GROUP)  # looking changes nothing
        verdicts.append(judge(LIMITS, evidence, SECOND_GROUP))
    assert all(verdict == verdicts[0] for verdict in verdicts)


class TestTrapsOfOthers:
    """What an update server that counts installations falls into."""

    def test_devices_that_are_away_hide_no_failures(self) -> None:
        # 1,000 targets of which 4 or 10 are there: most of these fail, which is not "few errors"
        everybody = Scope(group=4, mode="run", members=1000, classes=10)
        limits = GatePlan(min_images=0)
        for settled in (0, 6):
            evidence = Evidence()
            for number in range(4):
                evidence.fail(number, device(number))
            for number in range(4, 4 + settled):
                evidence.settle(number, device(number), 0)
            assert judge(limits, evidence, everybody).outcome == "inconclusive"

    def test_devices_that_are_away_are_no_failures(self) -> None:
        evidence = evidence_of(*[comparison({"fig": pairs(0, 0)})] * 15)
        everybody = Scope(group=4, mode="run", members=1000, classes=10)
        assert judge(LIMITS, evidence, everybody).outcome == "pass"

    @pytest.mark.parametrize("failed", [5, 6])
    def test_a_group_that_ends_with_half_of_it_failed_does_not_pass_by_having_ended(
        self, failed: int
    ) -> None:
        evidence = Evidence()
        for number in range(10):
            if number < failed:
                evidence.fail(number, device(number))
            else:
                evidence.settle(number, device(number), 0)
        scope = Scope(group=2, mode="run", members=10, classes=10)
        assert judge(LIMITS, evidence, scope).outcome == "fail"

    def test_evidence_that_is_exactly_the_threshold_fails(self) -> None:
        # six devices that lose all that counts: e = (1.2^6 + 1.5^6 + 1.8^6) / 3
        exactly = GatePlan(retention=16.129611, no_class_lost=None)
        evidence = evidence_of(*[comparison({"fig": pairs(2, 0)})] * 6)
        assert judge(exactly, evidence, SECOND_GROUP).outcome == "fail"
        above = exactly.model_copy(update={"retention": 16.129612})
        assert judge(above, evidence, SECOND_GROUP).outcome != "fail"

    def test_a_number_of_devices_is_no_percentage(self) -> None:
        # at most 5 devices, whatever share they are: 6 of 20 fail, and 5 of 20 do not
        limits = GatePlan(failed_devices=5, failed_share=0, min_images=0)
        for failed, outcome in ((5, "pass"), (6, "fail")):
            evidence = Evidence()
            for number in range(20):
                if number < failed:
                    evidence.fail(number, device(number))
                else:
                    evidence.settle(number, device(number), 0)
            assert judge(limits, evidence, SECOND_GROUP).outcome == outcome


def test_what_a_person_forgave_decides_no_more_and_hides_nothing_else() -> None:
    bad = comparison({"fig": pairs(4, 0), "kiwi": pairs(3, 0, 40), "plum": pairs(0, 7)})
    evidence = evidence_of(*[bad] * 30)
    first = judge(LIMITS, evidence, SECOND_GROUP)
    assert [finding.of_class for finding in first.deciding] == ["fig"]
    forgiven = frozenset((finding.gate, finding.of_class) for finding in first.deciding)
    second = judge(LIMITS, evidence, replace(SECOND_GROUP, forgiven=forgiven))
    assert [finding.of_class for finding in second.deciding] == ["kiwi"]
    forgiven |= {(finding.gate, finding.of_class) for finding in second.deciding}
    assert judge(LIMITS, evidence, replace(SECOND_GROUP, forgiven=forgiven)).outcome == "pass"


def test_what_a_person_overlooked_while_it_was_unclear_counts_once_it_fails() -> None:
    few = evidence_of(*[comparison({"fig": pairs(12, 0, 80)})] * 3)
    limits = GatePlan(alike=1)
    first = judge(limits, few, SECOND_GROUP)
    assert first.outcome == "inconclusive"
    keys = frozenset((finding.gate, finding.of_class) for finding in first.deciding)
    scope = replace(SECOND_GROUP, overlooked=keys)
    assert judge(limits, few, scope).outcome == "pass"
    many = evidence_of(*[comparison({"fig": pairs(12, 0)})] * 12)
    assert judge(limits, many, scope).outcome == "fail"

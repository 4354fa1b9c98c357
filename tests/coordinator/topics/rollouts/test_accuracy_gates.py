"""Gates on held-out images: what was known is kept, no class is lost, new classes are learned."""

from __future__ import annotations

import math

import pytest

from coordinator.topics.rollouts.accuracy_gates import better, gain, no_class_lost, retention
from coordinator.topics.rollouts.entries import GateFinding
from coordinator.topics.rollouts.evidence import Evidence
from coordinator.topics.rollouts.plan import GatePlan
from coordinator.topics.rollouts.scope import Scope
from schemas.rollouts import ModelComparison, Share, place_of
from tests.coordinator.topics.rollouts.reports import (
    FIRST_GROUP,
    SECOND_GROUP,
    comparison,
    device,
    evidence_of,
    pairs,
)

LIMITS = GatePlan()


def kept(evidence: Evidence, limits: GatePlan = LIMITS, scope: Scope = SECOND_GROUP) -> GateFinding:
    found = retention(limits, evidence, scope)
    assert found is not None
    return found


def fleet(count: int, worse: int, better: int, images: int = 20) -> Evidence:
    return evidence_of(*[comparison({"fig": pairs(worse, better, images)})] * count)


def test_a_model_that_answers_alike_passes() -> None:
    found = kept(fleet(12, 1, 1))
    assert (found.outcome, found.counts) == ("pass", (12, 12, 240, 0, 0, 12))


def test_a_model_that_is_worse_on_many_devices_fails_and_rests_on_none_of_them() -> None:
    found = kept(fleet(12, 2, 0))
    assert (found.outcome, found.alone) == ("fail", None)
    assert found.value is not None
    assert found.value > math.log(100)
    assert "24 only the active model had right and 0 only the candidate" in found.text


def test_images_of_one_device_prove_nothing_to_the_others() -> None:
    # 20 images say so without a doubt, and eleven devices say otherwise
    found = kept(
        evidence_of(comparison({"fig": pairs(20, 0)}), *[comparison({"fig": pairs(0, 0)})] * 11)
    )
    assert found.outcome == "pass"


def test_what_fails_by_one_device_s_images_names_it() -> None:
    weak, strong = comparison({"fig": pairs(1, 0)}), comparison({"fig": pairs(9, 0)})
    found = kept(evidence_of(strong, *[weak] * 6, *[comparison({"fig": pairs(0, 0)})] * 4))
    assert (found.outcome, found.alone) == ("fail", device(0))
    assert "Without dev-0000 it would not be so." in found.text


def test_where_too_few_devices_could_carry_a_vote_a_person_is_asked() -> None:
    found = kept(fleet(4, 10, 0, 60))
    assert (found.outcome, found.too_little) == ("inconclusive", False)
    assert "too few devices" in found.text


@pytest.mark.parametrize(("devices", "images"), [(2, 200), (12, 10)])
def test_too_little_never_passes(devices: int, images: int) -> None:
    found = kept(fleet(devices, 0, 0, images))
    assert (found.outcome, found.too_little) == ("inconclusive", True)


def test_too_little_may_fail_for_evidence_needs_no_least_number() -> None:
    assert kept(fleet(10, 2, 0, 10)).outcome == "fail"


def test_the_whole_of_a_small_group_is_enough_devices() -> None:
    scope = Scope(group=2, mode="run", members=2, classes=1)
    assert kept(fleet(2, 0, 0, 100), scope=scope).outcome == "pass"


def test_where_devices_have_no_images_nothing_is_asked_of_accuracy() -> None:
    assert kept(evidence_of(comparison()), GatePlan(min_images=0)).outcome == "pass"


@pytest.mark.parametrize("gate", [retention, no_class_lost])
def test_a_gate_that_is_off_or_about_nothing_says_nothing(gate: type) -> None:
    off = GatePlan(retention=None, no_class_lost=None)
    assert gate(off, fleet(12, 20, 0), SECOND_GROUP) is None
    nothing = Scope(group=1, mode="run", members=1, classes=0)
    assert gate(LIMITS, evidence_of(comparison()), nothing) is None


def lost(evidence: Evidence, classes: int = 10) -> GateFinding:
    found = no_class_lost(LIMITS, evidence, Scope(2, "run", 51, classes))
    assert found is not None
    return found


def test_one_class_that_is_lost_fails_though_all_together_are_kept() -> None:
    one = comparison({"fig": pairs(2, 0, 2), **{f"c{n}": pairs(0, 1, 5) for n in range(9)}})
    evidence = evidence_of(*[one] * 12)
    assert kept(evidence).outcome == "pass"
    found = lost(evidence)
    assert (found.outcome, found.of_class, found.alone) == ("fail", "fig", None)


def test_the_threshold_of_a_class_grows_with_the_number_of_classes() -> None:
    evidence = evidence_of(*[comparison({"fig": pairs(1, 0)})] * 14)
    assert lost(evidence, classes=1).outcome == "fail"
    assert lost(evidence, classes=30).outcome == "pass"
    assert lost(evidence, classes=10).limit == pytest.approx(math.log(1000), abs=1e-3)


def test_a_class_that_few_devices_have_is_for_a_person() -> None:
    others = [comparison({"kiwi": pairs(0, 0)})] * 12
    found = lost(evidence_of(*[comparison({"fig": pairs(10, 0)})] * 3, *others))
    assert (found.outcome, found.of_class, found.too_little) == ("inconclusive", "fig", False)


def learned(right: int, wrong: int, min_new: float = 0.7, devices: int = 10) -> GateFinding:
    one = comparison(
        {"new": pairs(0, right, right).model_copy(update={"neither": wrong})}, new=["new"]
    )
    found = gain(GatePlan(min_new=min_new), evidence_of(*[one] * devices), SECOND_GROUP)
    assert found is not None
    return found


def test_new_classes_pass_fail_or_may_be_either() -> None:
    assert learned(18, 2).outcome == "pass"
    assert learned(10, 10).outcome == "fail"
    between = learned(27, 13)
    assert (between.outcome, between.too_little) == ("inconclusive", False)
    assert "may yet be chance" in between.text


def test_exactly_the_share_that_is_asked_passes() -> None:
    assert learned(14, 6).outcome == "pass"


def test_few_images_of_new_classes_are_too_little() -> None:
    found = learned(1, 10)
    assert (found.outcome, found.too_little) == ("inconclusive", True)


def test_new_classes_that_one_device_spoils_are_for_a_person() -> None:
    good = comparison({"new": pairs(0, 18)}, new=["new"])
    bad = comparison({"new": pairs(0, 0, 0).model_copy(update={"neither": 400})}, new=["new"])
    found = gain(GatePlan(min_new=0.7), evidence_of(bad, *[good] * 12), SECOND_GROUP)
    assert found is not None
    assert (found.outcome, found.alone) == ("fail", device(0))


def test_of_new_classes_nothing_is_asked_unless_somebody_does() -> None:
    assert gain(LIMITS, fleet(3, 0, 0), FIRST_GROUP) is None


def shown_better(*found: ModelComparison, judges: Share | None = None) -> GateFinding:
    limits = GatePlan(better=100.0)
    evidence = Evidence(judges)
    for number, one in enumerate(found):
        evidence.compare(number, device(number), one)
    scope = Scope(group=1, mode="shadow", members=12, classes=10, judges=judges)
    finding = better(limits, evidence, scope)
    assert finding is not None
    return finding


def test_where_nobody_asks_that_it_is_better_nothing_is_said_of_it() -> None:
    assert better(LIMITS, fleet(3, 0, 9), FIRST_GROUP) is None


def test_evidence_that_it_is_better_passes_and_less_of_it_does_not() -> None:
    strong, weak = comparison({"fig": pairs(1, 9)}), comparison({"fig": pairs(1, 2)})
    found = shown_better(*[strong] * 4)
    assert (found.outcome, found.counts) == ("pass", (36, 4, 80, 4, 0, 4))
    assert found.value is not None
    assert found.value > math.log(100)
    less = shown_better(*[weak] * 4)
    assert (less.outcome, less.too_little) == ("inconclusive", False)
    assert "So it is not shown to be better." in less.text


def test_a_model_that_is_worse_is_not_shown_to_be_better_however_clearly() -> None:
    found = shown_better(*[comparison({"fig": pairs(9, 0)})] * 5)
    assert (found.outcome, found.value) == ("inconclusive", 0.0)


def test_many_images_of_one_device_do_not_outweigh_more_devices_that_are_worse_off() -> None:
    one, others = comparison({"fig": pairs(0, 20)}), comparison({"fig": pairs(1, 0)})
    assert shown_better(one, others, others).outcome == "inconclusive"


def test_only_devices_that_had_no_part_in_it_say_that_it_is_better() -> None:
    places = {number: place_of("adapter-1", device(number)) for number in range(12)}
    judges = Share(salt="adapter-1", below=sorted(places.values())[2] + 1)
    gains, loses = comparison({"fig": pairs(0, 9)}), comparison({"fig": pairs(2, 0)})
    found = shown_better(
        *(loses if judges.has(device(number)) else gains for number in range(12)), judges=judges
    )
    assert (found.outcome, found.counts) == ("inconclusive", (0, 6, 60, 0, 3, 3))
    assert "on 3 devices that had no part in it" in found.text

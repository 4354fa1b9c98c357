"""Gates on held-out images: what was known is kept, no class is lost, new classes are learned."""

from __future__ import annotations

import math
from functools import partial

import pytest

from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.gates import GateFinding, ask, gate_of
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Scope
from fleetledger.schemas.rollouts import ModelComparison, Pairs, Share, place_of
from tests.coordinator.topics.rollouts.reports import (
    FIRST_GROUP,
    SECOND_GROUP,
    comparison,
    device,
    evidence_of,
    pairs,
)

LIMITS = GatePlan()
retention, no_class_lost, better, gain = (
    partial(ask, gate_of(name)) for name in ("retention", "no_class_lost", "better", "gain")
)
ALIKE = GatePlan(alike=1)
SAME, LOSS, GAIN = (comparison({"fig": pairs(*net)}) for net in ((0, 0), (2, 0), (0, 2)))
"""Devices with 20 images: equal, 10 points worse, 10 points better."""


def kept(evidence: Evidence, limits: GatePlan = LIMITS, scope: Scope = SECOND_GROUP) -> GateFinding:
    found = retention(limits, evidence, scope)
    assert found is not None
    return found


def fleet(count: int, worse: int, better: int, images: int = 20) -> Evidence:
    return evidence_of(*[comparison({"fig": pairs(worse, better, images)})] * count)


def test_a_model_that_answers_alike_passes() -> None:
    found = kept(fleet(12, 1, 1))
    assert (found.outcome, found.counts) == ("pass", (12, 12, 240, 0, 0, 12))
    assert (found.value, found.limit) == (0.0, round(math.log(200), 3))


def test_a_model_that_is_worse_on_many_devices_fails_and_rests_on_none_of_them() -> None:
    found = kept(fleet(12, 2, 0))
    assert (found.outcome, found.alone) == ("fail", None)
    assert found.value is not None
    assert found.value > math.log(200)
    assert "24 only the active model had right and 0 only the candidate" in found.text
    assert "12 devices are worse off and 0 better off." in found.text


def test_devices_that_are_better_off_count_against_those_that_are_worse_off() -> None:
    lost = kept(evidence_of(*[LOSS] * 20, *[GAIN] * 3))
    assert (lost.outcome, lost.counts[3:]) == ("fail", (20, 3, 23))
    assert "20 devices are worse off and 3 better off." in lost.text
    even = kept(evidence_of(*[LOSS] * 20, *[GAIN] * 12))
    assert (even.outcome, even.counts[3:]) == ("pass", (20, 12, 32))


def test_one_device_is_worse_off_in_the_singular() -> None:
    found = kept(evidence_of(LOSS, *[SAME] * 10), GatePlan(retention=1.2))
    assert (found.outcome, found.alone) == ("fail", device(0))
    assert "1 device is worse off and 0 better off." in found.text


def test_however_many_images_a_device_has_it_counts_for_one() -> None:
    shout = comparison({"fig": Pairs(only_active=10**6)})
    found = kept(evidence_of(shout, *[SAME] * 11))
    assert found.outcome == "pass"
    assert found.value == kept(evidence_of(LOSS, *[SAME] * 11)).value


def test_no_device_hides_a_loss_that_the_others_have() -> None:
    hides = comparison({"fig": Pairs(only_candidate=10**6)})
    assert kept(evidence_of(hides, *[LOSS] * 20)).outcome == "fail"


def test_what_passes_by_one_device_alone_is_for_a_person_who_is_told_its_name() -> None:
    hides = comparison({"fig": Pairs(only_candidate=10**6)})
    found = kept(evidence_of(*[LOSS] * 12, hides))
    assert (found.outcome, found.alone, found.too_little) == ("inconclusive", device(12), False)
    assert "It does not fail, by one device alone: a person should look." in found.text
    assert "Without dev-0012 it would not be so." in found.text
    assert kept(evidence_of(*[LOSS] * 12, hides, hides)).outcome == "pass"
    of_class = lost(evidence_of(*[LOSS] * 16, hides))
    assert (of_class.outcome, of_class.alone) == ("inconclusive", device(16))


def test_what_fails_by_one_device_names_it_though_others_are_as_many() -> None:
    # eleven devices just reach 200, and without any one of them ten do not
    weak = comparison({"fig": pairs(2, 0, 25)})
    assert kept(evidence_of(*[LOSS] * 11)).alone == device(0)
    found = kept(evidence_of(*[weak] * 4, LOSS, *[weak] * 8))
    assert (found.outcome, found.alone) == ("fail", device(4))
    assert "Without dev-0004 it would not be so." in found.text
    assert kept(evidence_of(*[LOSS] * 12)).alone is None


def test_where_devices_are_too_few_a_person_is_told_how_many_there_are_and_are_needed() -> None:
    found = kept(fleet(5, 20, 0))
    scope = Scope(group=2, mode="run", members=5, classes=1)
    for few in (kept(fleet(5, 10, 0, 60)), kept(fleet(5, 10, 0, 60), scope=scope)):
        assert (few.outcome, few.too_little, few.alone) == ("inconclusive", True, None)
        assert "5 devices have images, and 11 are needed to tell by themselves." in few.text
    assert (found.outcome, found.too_little) == ("inconclusive", True)
    one = kept(fleet(1, 0, 0, 300))
    assert "1 device has images, and 11 are needed" in one.text
    assert (
        "That is too little to pass: 0 of 200 images are there."
        in kept(evidence_of(comparison())).text
    )


def test_images_speak_for_few_devices_where_somebody_knows_how_many_are_alike() -> None:
    evidence = fleet(5, 4, 0, 100)
    found = kept(evidence, ALIKE)
    assert (found.outcome, found.too_little) == ("inconclusive", False)
    assert "if at most 1 of them show the same thing" in found.text
    assert "5 devices have images, and 11 are needed" in found.text
    five = kept(evidence, GatePlan(alike=5, min_images=100))
    assert (five.outcome, five.too_little) == ("pass", False)
    asked = kept(evidence, GatePlan(alike=5))
    assert (asked.outcome, asked.too_little) == ("inconclusive", True)
    assert "100 of 200 images are there: 500 images, of which 5 count as one." in asked.text
    assert kept(fleet(5, 0, 0, 100), ALIKE).outcome == "pass"


def test_where_devices_can_decide_images_say_nothing_by_themselves() -> None:
    bursts = [comparison({"fig": pairs(60, 0, 60)})] * 3 + [SAME] * 20
    assert kept(evidence_of(*bursts), ALIKE).outcome == "pass"


def test_a_person_is_asked_where_most_devices_are_a_little_worse_off() -> None:
    little = comparison({"fig": pairs(1, 0, 400)})
    found = kept(evidence_of(*[little] * 30, *[GAIN] * 2))
    assert (found.outcome, found.too_little, found.alone) == ("inconclusive", False, None)
    assert "But 30 devices are worse off and 2 better off, log e of votes" in found.text
    assert kept(evidence_of(*[little] * 9, *[SAME] * 9)).outcome == "pass"


def test_liars_by_choice_take_more_evidence() -> None:
    evidence = fleet(12, 2, 0)
    assert kept(evidence, GatePlan(liars=0.0)).outcome == "fail"
    assert kept(evidence, GatePlan(liars=0.1)).outcome != "fail"


@pytest.mark.parametrize(("devices", "images"), [(2, 200), (12, 10)])
def test_too_little_never_passes(devices: int, images: int) -> None:
    found = kept(fleet(devices, 0, 0, images))
    assert (found.outcome, found.too_little) == ("inconclusive", True)


def test_too_little_may_fail_for_evidence_needs_no_least_number_of_images() -> None:
    assert kept(fleet(12, 2, 0, 10)).outcome == "fail"


def test_the_whole_of_a_small_group_is_enough_devices_for_images() -> None:
    scope = Scope(group=2, mode="run", members=2, classes=1)
    assert kept(fleet(2, 0, 0, 100), ALIKE, scope).outcome == "pass"
    assert kept(fleet(1, 0, 0, 200), ALIKE, scope).too_little


def test_where_devices_have_no_images_nothing_is_asked_of_accuracy() -> None:
    assert kept(evidence_of(comparison()), GatePlan(min_images=0)).outcome == "pass"


@pytest.mark.parametrize("gate", [retention, no_class_lost])
def test_a_gate_that_is_off_or_about_nothing_says_nothing(gate: type) -> None:
    off = GatePlan(retention=None, no_class_lost=None)
    assert gate(off, fleet(12, 20, 0), SECOND_GROUP) is None
    nothing = Scope(group=1, mode="run", members=1, classes=0)
    assert gate(LIMITS, evidence_of(comparison()), nothing) is None


@pytest.mark.parametrize(
    ("limits", "classes", "needed"),
    [
        (LIMITS, 1, 11),
        (LIMITS, 10, 15),
        (LIMITS, 100, 19),
        (GatePlan(no_class_lost=None), 100, 11),
        (GatePlan(no_class_lost=None, retention=None), 100, 0),
        (GatePlan(min_images=0), 10, 0),
        (ALIKE, 10, 0),
    ],
)
def test_how_many_devices_are_needed_follows_from_the_plan(
    limits: GatePlan, classes: int, needed: int
) -> None:
    assert limits.devices_needed(classes) == needed


def lost(evidence: Evidence, classes: int = 10, limits: GatePlan = LIMITS) -> GateFinding:
    found = no_class_lost(limits, evidence, Scope(2, "run", 51, classes))
    assert found is not None
    return found


def test_one_class_that_is_lost_fails_though_all_together_are_kept() -> None:
    one = comparison({"fig": pairs(2, 0, 2), **{f"c{n}": pairs(0, 1, 5) for n in range(9)}})
    evidence = evidence_of(*[one] * 16)
    assert kept(evidence).outcome == "pass"
    found = lost(evidence)
    assert (found.outcome, found.of_class, found.alone) == ("fail", "fig", None)


def test_the_threshold_of_a_class_grows_with_the_number_of_classes() -> None:
    evidence = evidence_of(*[comparison({"fig": pairs(2, 0)})] * 15)
    assert lost(evidence, classes=10).outcome == "fail"
    assert lost(evidence, classes=30).outcome != "fail"
    assert lost(evidence, classes=10).limit == pytest.approx(math.log(2000), abs=1e-3)


def test_classes_on_too_few_devices_are_listed_and_decide_nothing() -> None:
    others = [comparison({"kiwi": pairs(0, 0)})] * 16
    found = lost(evidence_of(*[comparison({"fig": pairs(10, 0)})] * 3, *others))
    assert (found.outcome, found.too_little) == ("pass", False)
    assert "Told by too few devices, 15 are needed: fig (3)." in found.text


def test_images_of_a_class_on_few_devices_speak_where_somebody_knows_how_many_are_alike() -> None:
    others = [comparison({"kiwi": pairs(0, 0)})] * 16
    few = [comparison({"fig": pairs(10, 0)})] * 3
    found = lost(evidence_of(*few, *others), limits=ALIKE)
    assert (found.outcome, found.of_class, found.too_little) == ("inconclusive", "fig", False)


def learned(right: int, wrong: int, min_new: float = 0.7, devices: int = 20) -> GateFinding:
    one = comparison({"new": Pairs(only_candidate=right, neither=wrong)}, new=["new"])
    limits = GatePlan(min_new=min_new)
    found = gain(limits, evidence_of(*[one] * devices, limits=limits), SECOND_GROUP)
    assert found is not None
    return found


def test_new_classes_pass_fail_or_may_be_either() -> None:
    assert learned(18, 2).outcome == "pass"
    assert learned(5, 15).outcome == "fail"
    between = learned(27, 13)
    assert (between.outcome, between.too_little) == ("inconclusive", False)
    assert "may yet be chance" in between.text


def test_exactly_the_share_that_is_asked_passes() -> None:
    assert learned(14, 6).outcome == "pass"


def test_few_images_of_new_classes_are_too_little() -> None:
    found = learned(1, 8)
    assert (found.outcome, found.too_little) == ("inconclusive", True)


def of_new(*shares: tuple[int, int], limits: GatePlan | None = None) -> GateFinding:
    """Devices with so many right of so many images of a new class."""
    limits = limits or GatePlan(min_new=0.7)
    new = [Pairs(only_candidate=right, neither=images - right) for right, images in shares]
    reports = [comparison({"new": pairs}, new=["new"]) for pairs in new]
    found = gain(limits, evidence_of(*reports, limits=limits), SECOND_GROUP)
    assert found is not None
    return found


def test_no_device_spoils_or_carries_new_classes_by_its_number_of_images() -> None:
    spoiled = of_new((0, 10**6), *[(18, 20)] * 12)
    assert (spoiled.outcome, spoiled.value) == ("pass", pytest.approx(12 * 0.9 / 13))
    carried = of_new((10**6, 10**6), *[(10, 20)] * 12)
    assert carried.outcome != "pass"


def test_new_classes_that_pass_by_the_best_device_alone_do_not_pass() -> None:
    found = of_new((200, 200), *[(13, 20)] * 5)
    assert (found.outcome, found.too_little) == ("inconclusive", False)
    assert "Without the best device it would be less." in found.text


def test_new_classes_that_fail_by_one_device_name_it() -> None:
    limits = GatePlan(min_new=0.5)
    one_less = [(4, 20)] * 13
    assert of_new(*one_less, limits=limits).outcome != "fail"
    found = of_new((0, 20), *one_less, limits=limits)
    assert (found.outcome, found.alone) == ("fail", device(0))
    assert of_new(*[(0, 20)] * 20, limits=limits).alone is None


def test_of_new_classes_nothing_is_asked_unless_somebody_does() -> None:
    assert gain(LIMITS, fleet(3, 0, 0), FIRST_GROUP) is None


def shown_better(
    *found: ModelComparison, judges: Share | None = None, alike: int | None = None
) -> GateFinding:
    limits = GatePlan(better=100.0, alike=alike)
    evidence = Evidence(limits, judges)
    for number, one in enumerate(found):
        evidence.compare(number, device(number), one)
    scope = Scope(group=1, mode="shadow", members=12, classes=10, judges=judges)
    finding = better(limits, evidence, scope)
    assert finding is not None
    return finding


def test_where_nobody_asks_that_it_is_better_nothing_is_said_of_it() -> None:
    assert better(LIMITS, fleet(3, 0, 9), FIRST_GROUP) is None


def test_evidence_that_it_is_better_passes_and_less_of_it_does_not() -> None:
    found = shown_better(*[comparison({"fig": pairs(1, 9)})] * 11)
    assert (found.outcome, found.counts) == ("pass", (99, 11, 220, 11, 0, 11))
    assert found.value is not None
    assert found.value > math.log(100)
    less = shown_better(*[comparison({"fig": pairs(1, 2, 40)})] * 11)
    assert (less.outcome, less.too_little) == ("inconclusive", False)
    assert "So it is not shown to be better." in less.text


def test_ten_judges_that_all_gain_are_one_too_few_to_do_without_one() -> None:
    found = shown_better(*[GAIN] * 10)
    assert found.outcome == "inconclusive"
    assert "10 devices have images, and 11 are needed to tell by themselves." in found.text
    assert shown_better(*[GAIN] * 11).outcome == "pass"


def test_a_model_that_is_worse_is_not_shown_to_be_better_however_clearly() -> None:
    found = shown_better(*[comparison({"fig": pairs(9, 0)})] * 20)
    assert found.outcome == "inconclusive"
    assert found.value is not None
    assert found.value < 0


def test_no_judge_carries_or_stops_an_adapter_by_itself() -> None:
    carries = comparison({"fig": Pairs(only_candidate=10**6)})
    stops = comparison({"fig": Pairs(only_active=10**6)})
    assert shown_better(carries, *[SAME] * 30).outcome == "inconclusive"
    assert shown_better(carries, *[GAIN] * 9).outcome == "inconclusive"
    assert shown_better(stops, *[GAIN] * 20).outcome == "pass"


def test_a_veto_of_one_judge_of_twenty_is_no_veto_and_of_two_is() -> None:
    six_points = comparison({"fig": pairs(1, 7, 100)})
    stops = comparison({"fig": Pairs(only_active=100)})
    found = shown_better(*[six_points] * 19, stops)
    assert found.outcome == "pass"
    assert "without the one that is worst off; log e of votes is 8.5" in found.text
    assert shown_better(*[six_points] * 18, stops, stops).outcome == "inconclusive"
    worse = comparison({"fig": pairs(4, 0, 100)})
    seldom = shown_better(*[six_points] * 14, *[worse] * 6)
    assert seldom.outcome == "inconclusive", "most, and too few of them"


def test_images_of_few_judges_show_it_where_somebody_knows_how_many_are_alike() -> None:
    strong = comparison({"fig": pairs(0, 9)})
    assert shown_better(*[strong] * 4).outcome == "inconclusive"
    found = shown_better(*[strong] * 4, alike=1)
    assert found.outcome == "pass"
    assert "if at most 1 of them show the same thing" in found.text
    assert shown_better(*[strong] * 4, alike=20).outcome == "inconclusive"
    lone = comparison({"fig": pairs(0, 200, 200)})
    assert shown_better(lone, alike=1).outcome == "inconclusive"
    assert shown_better(lone, *[SAME] * 3, alike=1).outcome == "inconclusive"


def test_only_devices_that_had_no_part_in_it_say_that_it_is_better() -> None:
    places = {number: place_of("adapter-1", device(number)) for number in range(30)}
    judges = Share(salt="adapter-1", below=sorted(places.values())[2] + 1)
    found = shown_better(
        *(LOSS if judges.has(device(number)) else GAIN for number in range(30)), judges=judges
    )
    assert (found.outcome, found.counts) == ("inconclusive", (0, 6, 60, 0, 3, 3))
    assert "on 3 devices that had no part in it" in found.text

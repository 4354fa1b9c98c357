"""The evidence of a rollout's reports: whatever their order, each device once."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.topics.rollouts.evidence import Evidence, PairCounts
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import ClassName
from tests.coordinator.topics.rollouts.reports import comparison, device, evidence_of, pairs

few = st.integers(0, 9)
some_pairs = st.builds(Pairs, both=few, only_active=few, only_candidate=few, neither=few)


@st.composite
def comparisons(draw: st.DrawFn) -> ModelComparison:
    classes = draw(st.dictionaries(st.sampled_from(["fig", "kiwi", "plum"]), some_pairs))
    new = draw(st.sets(st.sampled_from(sorted(classes)))) if classes else set()
    for name in new:
        classes[name] = classes[name].model_copy(update={"both": 0, "only_active": 0})
    images, agreed = draw(few), draw(few)
    return comparison(
        classes,
        new=new,
        entropy=(images, draw(few), draw(few)),
        agreed=(agreed, agreed + draw(few)),
        latency=(draw(st.lists(few, max_size=5)), draw(st.lists(few, max_size=5))),
        memory=(draw(st.none() | few), draw(st.none() | few)),
    )


reports = st.lists(st.tuples(st.integers(0, 4), comparisons()), max_size=12)


def taken(given_reports: list[tuple[int, ModelComparison]]) -> Evidence:
    evidence = Evidence(GatePlan(min_new=0.5))
    for index, (number, one) in enumerate(given_reports):
        evidence.compare(index, device(number), one)
    evidence.comparisons = dict(sorted(evidence.comparisons.items()))
    evidence.by_class = {
        name: counts for name, counts in sorted(evidence.by_class.items()) if counts.images
    }
    evidence.entries = []
    return evidence


@given(reports, st.randoms(use_true_random=False))
def test_evidence_is_that_of_every_device_s_first_comparison_in_any_order(
    given_reports: list[tuple[int, ModelComparison]], order: st.DataObject
) -> None:
    first: dict[int, ModelComparison] = {}
    for number, one in given_reports:
        first.setdefault(number, one)
    shuffled = list(first.items())
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert taken(given_reports) == taken(shuffled)


def test_a_second_comparison_of_a_device_counts_for_nothing_and_is_no_report() -> None:
    evidence = Evidence()
    assert evidence.compare(5, device(1), comparison({"fig": pairs(1, 0)}))
    assert not evidence.compare(6, device(1), comparison({"fig": pairs(0, 9)}))
    assert (evidence.known.worse, evidence.known.better, evidence.entries) == (1, 0, [5])


def test_a_device_counts_once_for_all_classes_and_once_for_each() -> None:
    evidence = evidence_of(comparison({"fig": pairs(5, 0), "kiwi": pairs(0, 1)}))
    assert evidence.known == PairCounts(40, 5, 1, {Fraction(1): 1})
    assert evidence.by_class[ClassName("kiwi")] == PairCounts(20, 0, 1, {Fraction(-1, 2): 1})


def test_devices_are_worse_or_better_off_by_their_net_loss() -> None:
    found = evidence_of(
        *(comparison({"fig": pairs(*counts)}) for counts in ((2, 1), (1, 0), (0, 1), (3, 3))),
        comparison(),
    ).known
    assert (found.devices, found.devices_worse, found.devices_better) == (4, 2, 1)


def test_classes_that_the_active_model_does_not_know_are_counted_apart() -> None:
    evidence = evidence_of(comparison({"fig": pairs(1, 0), "new": Pairs(only_candidate=20)}))
    assert evidence.known.images == 40
    apart = comparison(
        {"fig": pairs(1, 0), "new": Pairs(only_candidate=15, neither=5)}, new=["new"]
    )
    evidence = evidence_of(apart)
    assert evidence.known.images == 20
    assert (evidence.new.right, evidence.new.images) == (15, 20)
    assert evidence.new.wrong.mean == Fraction(1, 4)


def test_a_device_that_comes_through_in_the_end_has_not_failed() -> None:
    evidence = Evidence()
    evidence.fail(1, device(1))
    evidence.settle(2, device(1), 0)
    assert (evidence.failed, evidence.settled) == (set(), {device(1)})
    evidence.fail(3, device(1))
    assert (evidence.failed, evidence.settled) == ({device(1)}, set())
    assert evidence.entries == [1, 2, 3]

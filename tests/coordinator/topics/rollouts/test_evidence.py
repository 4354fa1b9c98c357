"""The sums of a rollout's reports: whatever their order, and as if made anew."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from coordinator.topics.rollouts.evidence import Evidence, PairCounts, Sums
from schemas.rollouts import ModelComparison, Pairs
from schemas.values import ClassName
from tests.coordinator.topics.rollouts.reports import comparison, device, evidence_of, pairs

few = st.integers(0, 9)
some_pairs = st.builds(Pairs, both=few, only_active=few, only_candidate=few, neither=few)


@st.composite
def comparisons(draw: st.DrawFn) -> ModelComparison:
    classes = draw(st.dictionaries(st.sampled_from(["fig", "kiwi", "plum"]), some_pairs))
    images = draw(few)
    agreed = draw(few)
    return comparison(
        classes,
        new=draw(st.sets(st.sampled_from(sorted(classes)))) if classes else (),
        entropy=(images, draw(few), draw(few)),
        agreed=(agreed, agreed + draw(few)),
        latency=(draw(st.lists(few, max_size=5)), draw(st.lists(few, max_size=5))),
        memory=(draw(st.none() | few), draw(st.none() | few)),
    )


reports = st.lists(st.tuples(st.integers(0, 4), comparisons()), max_size=12)


def taken(given_reports: list[tuple[int, ModelComparison]]) -> Evidence:
    evidence = Evidence()
    for index, (number, one) in enumerate(given_reports):
        evidence.compare(index, device(number), one)
    return evidence


def settled_sums(sums: Sums) -> Sums:
    """Sums without classes of which nothing is left."""
    kept = {name: counts for name, counts in sums.by_class.items() if counts != PairCounts()}
    sums.by_class = kept
    return sums


@given(reports)
def test_sums_are_those_of_every_device_s_last_comparison_in_any_order(
    given_reports: list[tuple[int, ModelComparison]],
) -> None:
    evidence = taken(given_reports)
    last = dict(given_reports)
    anew = taken(sorted(last.items(), key=lambda item: -item[0]))
    assert settled_sums(evidence.sums) == settled_sums(anew.sums)
    assert evidence.entries == list(range(len(given_reports)))


@given(reports)
def test_without_a_device_sums_are_as_if_it_had_never_reported_and_then_as_before(
    given_reports: list[tuple[int, ModelComparison]],
) -> None:
    evidence = taken(given_reports)
    before = deepcopy(evidence.sums)
    for one in list(evidence.comparisons):
        others = taken([item for item in given_reports if device(item[0]) != one])
        with evidence.without(one) as sums:
            assert settled_sums(deepcopy(sums)) == settled_sums(others.sums)
    assert evidence.sums == before


def test_a_device_votes_once_for_all_classes_and_once_for_each() -> None:
    evidence = evidence_of(comparison({"fig": pairs(5, 0), "kiwi": pairs(0, 2)}))
    assert evidence.sums.known == PairCounts(40, 5, 2, 1, 1, 0)
    assert evidence.sums.by_class[ClassName("kiwi")] == PairCounts(20, 0, 2, 1, 0, 1)


def test_classes_that_the_active_model_does_not_know_are_counted_apart() -> None:
    evidence = evidence_of(comparison({"fig": pairs(1, 0), "new": pairs(0, 15)}, new=["new"]))
    assert evidence.sums.known.images == 20
    assert (evidence.sums.new_right, evidence.sums.new_images) == (20, 20)


def test_a_device_that_comes_through_in_the_end_has_not_failed() -> None:
    evidence = Evidence()
    evidence.fail(1, device(1))
    evidence.settle(2, device(1), 0)
    assert (evidence.failed, evidence.settled) == (set(), {device(1)})
    evidence.fail(3, device(1))
    assert (evidence.failed, evidence.settled) == ({device(1)}, set())
    assert evidence.entries == [1, 2, 3]

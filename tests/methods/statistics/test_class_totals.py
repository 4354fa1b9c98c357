"""Exact totals by class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.class_totals import ClassTotals, totals_digest
from fleetledger.schemas.values import ClassName

A, B, C = ClassName("a"), ClassName("b"), ClassName("c")


def totals(rows: dict[ClassName, tuple[list[int], int]]) -> ClassTotals:
    sums = np.array([row for row, _ in rows.values()], np.int64)
    counts = np.array([count for _, count in rows.values()], np.int64)
    return ClassTotals.of_rows(tuple(rows), ScaledIntegers(sums), counts)


def plain(found: ClassTotals) -> dict[str, tuple[list[int], int]]:
    return {name: (t.correlation.values.tolist(), t.count) for name, t in found.items()}


ONE = totals({A: ([1, 2], 1), B: ([3, 4], 2)})
TWO = totals({B: ([10, 20], 5), C: ([7, 7], 1)})

parts = st.lists(
    st.dictionaries(
        st.sampled_from([A, B, C]),
        st.tuples(st.lists(st.integers(-99, 99), min_size=2, max_size=2), st.integers(1, 9)),
        min_size=1,
    ),
    min_size=1,
    max_size=6,
)


def test_totals_are_added_by_class():
    assert plain(ONE + TWO) == {"a": ([1, 2], 1), "b": ([13, 24], 7), "c": ([7, 7], 1)}
    assert (ONE + TWO).samples == {"a": 1, "b": 7, "c": 1}
    assert list((TWO + ONE).samples) == ["a", "b", "c"]


@given(parts)
def test_order_does_not_matter_and_subtraction_undoes(rows):
    made = [totals(row) for row in rows]
    forwards, backwards = ClassTotals(2), ClassTotals(2)
    for one, other in zip(made, reversed(made), strict=True):
        forwards, backwards = forwards + one, backwards + other
    assert totals_digest(forwards, "test-1") == totals_digest(backwards, "test-1")
    for one in made:
        forwards = forwards - one
    assert plain(forwards) == {}


def test_classes_of_one_name_are_merged():
    merged = (ONE + TWO).renamed({C: A})
    assert plain(merged) == {"a": ([8, 9], 2), "b": ([13, 24], 7)}


@pytest.mark.parametrize("wrong", [TWO, totals({A: ([1, 3], 1)}), totals({A: ([1, 2], 2)})])
def test_what_was_not_added_cannot_be_taken_out(wrong: ClassTotals):
    with pytest.raises(MethodError, match="was not added"):
        ONE - wrong


def test_totals_of_other_features_are_refused():
    with pytest.raises(MethodError, match=r"2 and of 3 features .* different lineages"):
        ONE + ClassTotals(3)


def test_a_sum_that_would_leave_int64_is_refused():
    large = totals({A: ([2**62, 0], 1)})
    with pytest.raises(MethodError, match="int64"):
        large + large


def test_the_digest_changes_with_everything_that_is_in_it():
    changed = [
        ONE + TWO,
        totals({A: ([1, 3], 1), B: ([3, 4], 2)}),
        totals({A: ([1, 2], 2), B: ([3, 4], 2)}),
        totals({A: ([1, 2], 1), C: ([3, 4], 2)}),
        ClassTotals(2),
        ClassTotals(3),
    ]
    digests = {totals_digest(found, "test-1") for found in [ONE, *changed]}
    digests.add(totals_digest(ONE, "test-2"))
    assert len(digests) == len(changed) + 2

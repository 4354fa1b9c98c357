"""Sums of middle values, beside Python's sorted lists."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.numerics.answer_rows import AnswerRows
from fleetledger.learning.numerics.middle_sums import (
    cut_at_each_end,
    cut_to_median,
    middle_sum,
)

numbers = st.integers(-(2**31), 2**31 - 1)
tables = st.integers(1, 9).flatmap(
    lambda width: st.lists(
        st.lists(numbers, min_size=width, max_size=width), min_size=1, max_size=9
    )
)


@given(tables, st.integers(0, 4), st.randoms())
def test_a_middle_sum_is_that_of_sorted_lists_in_any_order(
    table: list[list[int]], cut: int, random: st.DataObject
) -> None:
    cut = min(cut, cut_to_median(len(table)))
    kept = len(table) - 2 * cut
    wanted = [sum(sorted(column)[cut : cut + kept]) for column in zip(*table, strict=True)]
    assert middle_sum(np.array(table, np.int32), cut).tolist() == wanted
    random.shuffle(table)
    assert middle_sum(np.array(table, np.int32), cut).tolist() == wanted


@given(st.lists(numbers, min_size=1, max_size=12))
def test_the_median_is_the_middle_value_or_the_mean_of_both(values: list[int]) -> None:
    cut = cut_to_median(len(values))
    (found,) = middle_sum(np.array(values, np.int32)[:, None], cut).tolist()
    assert found / (len(values) - 2 * cut) == median(values)


@pytest.mark.parametrize(
    ("answers", "share", "cut"),
    [(1, 0.2, 0), (2, 0.4, 0), (3, 0.2, 1), (5, 0.2, 1), (9, 0.2, 1), (10, 0.2, 2), (10, 0.3, 3)],
)
def test_a_share_of_answers_is_cut_and_one_at_least(answers: int, share: float, cut: int) -> None:
    assert cut_at_each_end(answers, share) == cut


@given(st.integers(1, 1000), st.floats(0.001, 0.499))
def test_something_is_always_left(answers: int, share: float) -> None:
    assert answers - 2 * cut_at_each_end(answers, share) >= 1


@pytest.mark.parametrize("in_memory", [0, 100, 1 << 20])
def test_blocks_of_columns_are_the_answers_wherever_they_are_kept(
    in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.learning.numerics.answer_rows._BLOCK_VALUES", 20)
    table = np.random.default_rng(5).integers(-(2**31), 2**31, (7, 11)).astype(np.int32)
    rows = AnswerRows(11, in_memory)
    for row in table:
        rows.append(row)
    assert len(rows) == 7
    assert np.array_equal(rows.whole(), table)
    found = np.empty_like(table)
    for place, block in rows.blocks():
        assert block.size <= 20
        found[:, place] = block
    assert np.array_equal(found, table)

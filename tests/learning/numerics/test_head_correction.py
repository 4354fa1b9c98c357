"""Corrections of a head against the papers' equations, written out."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.learning.numerics.head_correction import aligned

ROWS = np.random.default_rng(5).normal(size=(6, 7)).astype(np.float32)


@pytest.mark.parametrize("old", range(1, 6))
def test_new_rows_become_as_long_as_old_ones_on_average(old: int) -> None:
    made = aligned(ROWS, old)
    norms = [float(np.sqrt(sum(float(x) ** 2 for x in row))) for row in ROWS]
    gamma = np.mean(norms[:old]) / np.mean(norms[old:])
    assert np.array_equal(made[:old], ROWS[:old])
    assert made[old:] == pytest.approx(gamma * ROWS[old:], rel=1e-6)
    after = np.linalg.norm(made.astype(float), axis=1)
    assert after[:old].mean() == pytest.approx(after[old:].mean(), rel=1e-6)


@pytest.mark.parametrize("old", [0, 6])
def test_rows_of_one_side_alone_stay(old: int) -> None:
    assert np.array_equal(aligned(ROWS, old), ROWS)


def test_new_rows_of_zeros_stay() -> None:
    rows = ROWS.copy()
    rows[4:] = 0
    assert np.array_equal(aligned(rows, 4), rows)

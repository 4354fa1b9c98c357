"""The compact Gram against Python integers, and what rounding may cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.errors import FeatureError, RangeError
from fleetledger.learning.numerics import compact
from fleetledger.learning.numerics.compact import (
    CompactFactor,
    RowSteps,
    check_steps,
    factor,
    factor_diagonal,
    factor_gram,
    largest_gram_entry,
    prove_factor,
    round_factor,
    rounding_length,
)
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.triangles import (
    pack_upper,
    symmetric,
    trapezoid_size,
    unpack_upper,
)


def features(samples: int, columns: int, rank: int | None = None, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if rank is not None:
        basis = rng.integers(0, 6, (rank, columns))
        return (rng.integers(0, 4, (samples, rank)) @ basis).astype(np.float32)
    return np.maximum(0, rng.integers(-127, 128, (samples, columns))).astype(np.float32)


def factor_of(h: np.ndarray) -> np.ndarray:
    return factor([h.astype(np.float64)], h.shape[1])


def gram_of(rounded: CompactFactor, steps: RowSteps) -> ScaledIntegers:
    """Return the Gram matrix of the rows of R alone."""
    return factor_gram(rounded, steps, np.empty((0, rounded.columns)))


def slow_gram(rounded: CompactFactor, finest: int) -> list[list[int]]:
    rows = unpack_upper(rounded.values, len(rounded.exponents), rounded.columns).tolist()
    powers = [2 ** (int(e) - finest) for e in rounded.exponents]
    whole = [[v * p for v in row] for row, p in zip(rows, powers, strict=True)]
    return [
        [sum(r[i] * r[j] for r in whole) for j in range(rounded.columns)]
        for i in range(rounded.columns)
    ]


def steps_for(h: np.ndarray, bits: int = 10) -> RowSteps:
    return RowSteps.covering(bits, -4, float(np.sqrt(len(h))) * 127)


@pytest.mark.parametrize(("samples", "columns"), [(1, 9), (5, 9), (9, 9), (40, 9), (2500, 30)])
def test_the_factor_has_the_gram_matrix_of_the_features(samples, columns):
    h = features(samples, columns)
    triangular = factor_of(h)
    assert triangular.shape == (min(samples, columns), columns)
    assert np.allclose(triangular.T @ triangular, h.T @ h, rtol=1e-12, atol=1e-6)
    assert not np.tril(triangular, -1).any()


@given(st.integers(1, 12), st.integers(1, 8), st.integers(8, 15), st.integers(0, 5))
def test_the_rounded_gram_is_that_of_integer_arithmetic(samples, columns, bits, seed):
    h = features(samples, columns, seed=seed)
    steps = steps_for(h, bits)
    rounded = round_factor(factor_of(h), steps)
    gram = gram_of(rounded, steps)
    assert gram.exponent == -8
    assert symmetric(gram.values, columns).tolist() == slow_gram(rounded, steps.finest)


@pytest.mark.parametrize("rank", [0, 1, 5])
def test_rank_deficient_features_work(rank):
    h = features(60, 20, rank)
    steps = steps_for(h, 15)
    gram = symmetric(gram_of(round_factor(factor_of(h), steps), steps).to_float(), 20)
    assert np.allclose(gram, h.T @ h, rtol=1e-2, atol=60)


def test_a_column_of_zeros_stays_zero():
    h = features(30, 12)
    h[:, [0, 5]] = 0
    steps = steps_for(h)
    gram = symmetric(gram_of(round_factor(factor_of(h), steps), steps).values, 12)
    assert not gram[[0, 5]].any()


def test_more_bits_come_closer():
    h = features(100, 40)
    errors = []
    for bits in (8, 10, 12, 15):
        steps = RowSteps.covering(bits, -10, float(np.sqrt(len(h))) * 127)
        gram = gram_of(round_factor(factor_of(h), steps), steps).to_float()
        errors.append(np.abs(symmetric(gram, 40) - h.T @ h).max())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 50


def test_signs_do_not_depend_on_how_the_factor_was_made():
    triangular = factor_of(features(9, 14))
    flipped = triangular * np.array([1, -1, -1, 1, 1, -1, 1, -1, -1])[:, None]
    steps = RowSteps(10, -4, 6)
    assert np.array_equal(
        round_factor(triangular, steps).values, round_factor(flipped, steps).values
    )


def test_small_rows_keep_fewer_bits_at_the_finest_step():
    triangular = np.array([[100.0, 0.3], [0.0, 0.09]])
    rounded = round_factor(triangular, RowSteps(10, -4, 6))
    assert rounded.exponents.tolist() == [-2, -4]
    assert rounded.values.tolist() == [400, 1, 1]


def test_a_row_too_large_is_refused_by_name_and_not_clipped():
    triangular = np.diag([100.0, 5000.0])
    with pytest.raises(RangeError, match=r"row 1 of the R factor: values: up to 5000 need steps"):
        round_factor(triangular, RowSteps(10, -4, 3))


def test_the_stated_bound_holds_and_is_not_far_off():
    for samples, columns in ((3, 50), (200, 50)):
        h = np.full((samples, columns), 127, np.float32)
        steps = steps_for(h, 8)
        largest = gram_of(round_factor(factor_of(h), steps), steps).largest
        bound = largest_gram_entry(samples, columns, 127, steps)
        assert largest <= bound < 1.3 * largest


def test_blocks_are_split_where_sums_would_leave_float64(monkeypatch):
    h = features(30, 12)
    steps = steps_for(h)
    rounded = round_factor(factor_of(h), steps)
    whole = gram_of(rounded, steps)
    matrix = compact._in_finest_steps(rounded, steps)
    assert len(compact._exact_blocks(matrix)) == 1
    monkeypatch.setattr(compact, "FLOAT64_EXACT", int(np.abs(matrix).max()) ** 2)
    assert len(compact._exact_blocks(matrix)) > 3
    assert np.array_equal(gram_of(rounded, steps).values, whole.values)


def test_ranges_that_cannot_be_exact_are_refused_beforehand():
    steps = RowSteps.covering(10, -4, 127 * 256)
    assert prove_factor(65_536, 1250, 127, steps) < 2**40
    with pytest.raises(RangeError, match=r"compact Gram: .* 2\^53"):
        prove_factor(65_536, 1250, 127, RowSteps.covering(10, -14, 127 * 256))


def broken(values: object = None, exponents: object = None) -> CompactFactor:
    good = round_factor(factor_of(features(3, 5)), RowSteps(10, -4, 6))
    return CompactFactor(
        good.values if values is None else np.array(values),
        good.exponents if exponents is None else np.array(exponents, np.int8),
        5,
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (broken(values=np.zeros(11, np.int64)), r"give \(12,\)"),
        (broken(values=np.full(12, 512)), "a value exceeds 511"),
        (broken(exponents=[0, 0, 7]), "row exponents: 7 is outside -4 to 6"),
        (broken(exponents=[0, -5, 0]), "row exponents: -5 is outside -4 to 6"),
    ],
)
def test_a_factor_that_does_not_fit_its_steps_is_refused(made, message):
    with pytest.raises(FeatureError, match=message):
        gram_of(made, RowSteps(10, -4, 6))


@pytest.mark.parametrize("pieces", [1, 2, 9, 40])
def test_rows_may_come_in_blocks_of_any_size(pieces):
    h = features(2500, 12)
    blocks = np.array_split(h.astype(np.float64), pieces)
    triangular = factor(blocks, 12)
    assert np.allclose(triangular.T @ triangular, h.T @ h, rtol=1e-12)
    assert factor([], 12).shape == (0, 12)


def test_rows_of_means_count_beside_the_factor():
    h = features(20, 9)
    steps = steps_for(h)
    rounded = round_factor(factor_of(h), steps)
    means = np.rint(np.random.default_rng(4).normal(scale=5000, size=(3, 9)))
    both = symmetric(factor_gram(rounded, steps, means).values, 9)
    alone = symmetric(gram_of(rounded, steps).values, 9)
    assert np.array_equal(both - alone, (means.T @ means).astype(np.int64))


def test_a_step_that_is_coarser_than_its_row_needs_is_refused():
    steps = RowSteps(10, -4, 6)
    rounded = round_factor(factor_of(features(9, 5)), steps)
    check_steps(rounded, steps)
    for values, exponents, row in (
        (rounded.values * 0, np.full(5, 6), 0),
        (rounded.values // 4, rounded.exponents + np.array([0, 2, 2, 2, 2]), "[0-4]"),
    ):
        coarse = CompactFactor(values, np.asarray(exponents, np.int8), 5)
        with pytest.raises(FeatureError, match=f"of row {row}, which a finer step holds"):
            check_steps(coarse, steps)


def test_rounding_moves_no_column_further_than_half_steps_say():
    h = features(300, 40)
    triangular = factor_of(h)
    for bits in (8, 10, 15):
        steps = steps_for(h, bits)
        rounded = round_factor(triangular, steps)
        rows = unpack_upper(rounded.values, 40, 40) * 2.0 ** rounded.exponents[:, None]
        signs = np.sign(np.sum(rows * np.triu(triangular), axis=1))[:, None]
        moved = np.linalg.norm(rows - signs * np.triu(triangular), axis=0)
        assert moved.max() <= rounding_length(rounded)


def test_a_hostile_factor_cannot_overflow():
    rows = columns = 2100
    values = np.full(trapezoid_size(rows, columns), 127)
    hostile = CompactFactor(values, np.full(rows, 19, np.int8), columns)
    with pytest.raises(RangeError, match="leave int64"):
        gram_of(hostile, RowSteps(8, 0, 19))
    hostile = CompactFactor(values, np.full(rows, 40, np.int8), columns)
    with pytest.raises(RangeError, match="row 0 of the R factor"):
        gram_of(hostile, RowSteps(8, 0, 40))


@pytest.mark.parametrize("columns", [7, 512, 700])
def test_the_strips_of_the_gram_are_those_of_the_whole_product(columns: int) -> None:
    h = features(40, columns)
    steps = steps_for(h)
    rounded = round_factor(factor_of(h), steps)
    values = unpack_upper(rounded.values, len(rounded.exponents), columns).astype(object)
    rows = values * np.array([2 ** (int(e) - steps.finest) for e in rounded.exponents])[:, None]
    whole = rows.astype(np.int64).T @ rows.astype(np.int64)
    assert np.array_equal(gram_of(rounded, steps).values, pack_upper(whole))
    assert np.array_equal(factor_diagonal(rounded, steps), np.diag(whole))

"""Exact Gram matrices and class sums against Python integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fleetledger.learning.errors import FeatureError, RangeError
from fleetledger.learning.numerics.exactness import exact_rows
from fleetledger.learning.numerics.gram import check_integers, class_sums, gram_triangle
from fleetledger.learning.numerics.triangles import (
    diagonal,
    pack_upper,
    symmetric,
    trapezoid_size,
    triangle_size,
    unpack_upper,
)


def integers(rows: int, columns: int, largest: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-largest, largest + 1, (rows, columns)).astype(np.float32)


@pytest.mark.parametrize(("largest", "rows"), [(127, 3000), (255, 600), (4096, 5)])
@pytest.mark.parametrize("columns", [1, 7, 300])
def test_the_triangle_is_that_of_integer_arithmetic(largest, rows, columns):
    features = integers(rows, columns, largest)
    exact = features.astype(np.int64).T @ features.astype(np.int64)
    assert np.array_equal(gram_triangle(features, largest), exact[np.triu_indices(columns)])


def test_sums_beyond_the_integers_of_float32_stay_exact():
    features = np.full((5001, 3), 127, np.float32)
    features[0] = 1
    expected = 5000 * 127**2 + 1
    assert expected > 2**24
    assert (gram_triangle(features, 127) == expected).all()


def test_order_blocks_and_blas_threads_do_not_matter():
    features = integers(1500, 280, 127)
    whole = gram_triangle(features, 127)
    shuffled = features[np.random.default_rng(1).permutation(1500)]
    with threadpool_limits(1, user_api="blas"):
        assert np.array_equal(gram_triangle(shuffled, 127), whole)
    with threadpool_limits(2, user_api="blas"):
        parts = [gram_triangle(part, 127) for part in np.array_split(shuffled, 13)]
    assert np.array_equal(sum(parts), whole)


def test_block_rows_keep_sums_within_float32():
    assert exact_rows(127) == 1040
    assert exact_rows(255) == 258
    assert exact_rows(4096) == 1
    with pytest.raises(RangeError, match="use fewer bits"):
        exact_rows(4097)


def test_class_sums_are_sums_of_rows():
    features = integers(200, 9, 255)
    classes = np.random.default_rng(3).integers(0, 4, 200)
    slow = [[int(features[classes == c, j].sum()) for j in range(9)] for c in range(5)]
    assert class_sums(features, classes, 5).tolist() == slow


def test_no_samples_give_zeros():
    assert not gram_triangle(np.zeros((0, 5), np.float32), 127).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.5, -1, 128])
def test_features_that_are_not_integers_of_the_range_are_named(bad):
    features = np.zeros((3, 4), np.float32)
    features[1, 2] = bad
    with pytest.raises(FeatureError, match=rf"{float(bad)} in row 1, column 2; give integers"):
        check_integers(features, 0, 127)


def test_integers_of_any_kind_are_accepted():
    for dtype in (np.uint8, np.int64, np.float64):
        assert check_integers(np.eye(3, dtype=dtype), 0, 1).dtype == np.float32
    with pytest.raises(FeatureError, match="give numbers"):
        check_integers(np.array([["a"]]), 0, 1)


@given(st.integers(1, 12), st.data())
def test_packing_an_upper_trapezoid_is_undone(columns, data):
    rows = data.draw(st.integers(0, columns))
    matrix = np.triu(integers(rows, columns, 9, seed=columns))
    vector = pack_upper(matrix)
    assert vector.shape == (trapezoid_size(rows, columns),)
    assert np.array_equal(vector, matrix[np.triu_indices(rows, m=columns)])
    assert np.array_equal(unpack_upper(vector, rows, columns), matrix)


@given(st.integers(1, 12))
def test_a_symmetric_matrix_comes_back_from_its_triangle(columns):
    matrix = integers(columns, columns, 9)
    matrix = matrix + matrix.T
    triangle = pack_upper(matrix)
    assert triangle.shape == (triangle_size(columns),)
    assert np.array_equal(symmetric(triangle, columns), matrix)
    assert np.array_equal(diagonal(triangle, columns), np.diag(matrix))


def test_a_triangle_of_another_length_is_refused():
    with pytest.raises(FeatureError, match=r"give \(10,\)"):
        symmetric(np.zeros(9), 4)

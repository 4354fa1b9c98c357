"""Triangles as vectors against NumPy's own."""

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.triangles import (
    pack_upper,
    symmetric,
    triangle_size,
    unpack_upper,
)


@pytest.mark.parametrize("columns", [1, 2, 128, 129, 256, 257, 600])
def test_a_symmetric_matrix_is_its_upper_triangle_twice(columns):
    square = np.random.default_rng(columns).integers(-99, 99, (columns, columns))
    expected = np.triu(square) + np.triu(square, 1).T
    assert np.array_equal(symmetric(pack_upper(square), columns), expected)


@pytest.mark.parametrize("columns", [1, 5, 300])
def test_unpacking_leaves_zeros_below_the_diagonal(columns):
    square = np.random.default_rng(columns).normal(size=(columns, columns))
    triangle = pack_upper(square)
    assert len(triangle) == triangle_size(columns)
    assert np.array_equal(unpack_upper(triangle, columns, columns), np.triu(square))


@pytest.mark.parametrize("length", [0, 9, 11])
def test_a_triangle_of_another_length_is_refused(length):
    with pytest.raises(FeatureError, match=r"give \(10,\)"):
        symmetric(np.zeros(length), 4)

"""New rows of a cosine head point where the features of their classes do."""

import numpy as np
import pytest

from fleetledger.learning.networks.imprinting import imprinted
from fleetledger.learning.numerics.nearest_mean import class_directions, unit_sums

generator = np.random.default_rng(4)
WEIGHT = generator.normal(size=(5, 3)).astype(np.float32)
FEATURES = generator.normal(size=(20, 3)).astype(np.float32)
LABELS = np.arange(20) % 4
"""Of class 4 there is no sample."""


def slowly(held, row):
    mine = [f.astype(float) for f, label in zip(FEATURES, LABELS, strict=True) if label == row]
    mean = sum(f / np.linalg.norm(f) for f in mine) / len(mine)
    lengths = [np.linalg.norm(w.astype(float)) for w in WEIGHT[:held]]
    return mean / np.linalg.norm(mean) * (sum(lengths) / held if held else 1)


def directions():
    return class_directions(unit_sums(FEATURES, LABELS, 5)[0])


@pytest.mark.parametrize("held", [0, 2, 3])
def test_new_rows_are_as_long_as_the_old_ones_and_point_to_the_mean(held):
    made = imprinted(WEIGHT, directions(), held)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made[:held], WEIGHT[:held])
    for row in range(held, 4):
        np.testing.assert_allclose(made[row], slowly(held, row), rtol=1e-6)


def test_a_class_without_a_sample_keeps_its_first_row():
    np.testing.assert_array_equal(imprinted(WEIGHT, directions(), 2)[4], WEIGHT[4])


def test_nothing_is_new_where_every_row_is_old():
    np.testing.assert_array_equal(imprinted(WEIGHT, directions(), 5), WEIGHT)

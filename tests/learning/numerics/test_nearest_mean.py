"""Nearest mean of exemplars against its definition, and its sums over many devices."""

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.nearest_mean import class_directions, unit_sums

generator = np.random.default_rng(6)
CLASSES = 4
FEATURES = generator.normal(size=(60, 5)).astype(np.float32)
LABELS = generator.integers(0, CLASSES - 1, 60)
"""The last class has no sample."""
TESTS = generator.normal(size=(30, 5))


def unit(vector):
    return vector / np.linalg.norm(vector)


def nearest_slowly(sample):
    distances = {}
    for c in set(LABELS.tolist()):
        mean = unit(np.mean([unit(f.astype(float)) for f in FEATURES[c == LABELS]], axis=0))
        distances[c] = np.linalg.norm(unit(sample) - mean)
    return min(distances, key=distances.get)


def test_the_highest_score_is_the_nearest_mean():
    sums, counts = unit_sums(FEATURES, LABELS, CLASSES)
    scores = TESTS @ class_directions(sums)[counts > 0].T
    assert scores.argmax(axis=1).tolist() == [nearest_slowly(sample) for sample in TESTS]


@pytest.mark.parametrize("devices", [2, 3, 7])
def test_the_sum_of_devices_is_that_of_one_device_with_all_samples(devices):
    whole, number = unit_sums(FEATURES, LABELS, CLASSES)
    parts = [unit_sums(FEATURES[k::devices], LABELS[k::devices], CLASSES) for k in range(devices)]
    sums, counts = parts[-1]
    for other, samples in parts[:-1]:
        sums, counts = sums + other, counts + samples
    np.testing.assert_array_equal(sums.values, whole.values)
    np.testing.assert_array_equal(counts, number)


def test_the_sums_are_those_of_unit_features_to_nine_digits():
    sums, _ = unit_sums(FEATURES, LABELS, CLASSES)
    for c in range(CLASSES - 1):
        wanted = sum(unit(f.astype(float)) for f in FEATURES[c == LABELS])
        np.testing.assert_allclose(sums.to_float()[c], wanted, atol=60 * 2.0**-31)


def test_no_samples_have_no_means():
    sums, counts = unit_sums(np.empty((0, 5)), np.empty(0, np.int64), CLASSES)
    assert not counts.any()
    assert not class_directions(sums).any()


def test_a_feature_of_length_0_counts_and_points_nowhere():
    sums, counts = unit_sums(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0, 0]), 1)
    np.testing.assert_allclose(class_directions(sums), [[0.6, 0.8]])
    assert counts.tolist() == [2]


def test_numbers_that_are_none_are_refused():
    with pytest.raises(FeatureError, match="finite"):
        unit_sums(np.array([[np.inf, 1.0]]), np.array([0]), 1)

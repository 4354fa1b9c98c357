"""Rows of a Gram matrix against the matrix that they multiply to."""

import numpy as np
import pytest

from fleetledger.learning.numerics.gram_rows import gram_rows


@pytest.mark.parametrize(("samples", "width"), [(1, 5), (7, 200), (130, 200), (200, 130), (90, 90)])
def test_rows_multiply_to_the_matrix_and_are_no_more_than_its_rank(samples, width):
    rng = np.random.default_rng(samples)
    features = np.rint(rng.normal(size=(samples, width)) * 40)
    gram = features.T @ features
    rows = gram_rows(gram)
    assert len(rows) == np.linalg.matrix_rank(features)
    assert np.abs(rows.T @ rows - gram).max() <= 1e-11 * gram.max()


def test_features_of_very_different_sizes_keep_their_rank():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20, 90)) * np.logspace(0, -3, 90)
    rows = gram_rows(features.T @ features)
    assert np.allclose(rows.T @ rows, features.T @ features, rtol=0, atol=1e-9)


def test_no_samples_have_no_rows():
    assert gram_rows(np.zeros((4, 4))).shape == (0, 4)


def test_of_a_matrix_with_noise_the_positive_part_remains():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(5, 40))
    noise = rng.normal(size=(40, 40))
    noisy = features.T @ features + noise + noise.T
    values, vectors = np.linalg.eigh(noisy)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    rows = gram_rows(noisy)
    assert np.allclose(rows.T @ rows, positive)

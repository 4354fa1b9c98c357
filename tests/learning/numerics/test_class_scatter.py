"""Scatter within classes and class means, against sums that are made sample by sample."""

import numpy as np
import pytest

from fleetledger.learning.numerics.class_scatter import class_contrasts, mean_rows


def slow_scatter(h: np.ndarray, classes: np.ndarray) -> np.ndarray:
    total = np.zeros((h.shape[1], h.shape[1]))
    for index in np.unique(classes):
        own = h[classes == index].astype(np.float64)
        for row in own:
            total += np.outer(row - own.mean(axis=0), row - own.mean(axis=0))
    return total


@pytest.mark.parametrize(("samples", "count"), [(1, 1), (7, 7), (40, 3), (2500, 2)])
def test_contrasts_have_the_scatter_within_classes(samples, count):
    rng = np.random.default_rng(samples)
    h = rng.integers(-127, 128, (samples, 6)).astype(np.float32)
    classes = np.arange(samples) % count
    rows = np.concatenate([np.empty((0, 6)), *class_contrasts(h, classes, count)])
    assert rows.shape == (samples - count, 6)
    assert np.allclose(rows.T @ rows, slow_scatter(h, classes), rtol=1e-9, atol=1e-9)


def test_equal_samples_have_no_scatter_at_all():
    h = np.full((300, 4), 127, np.float32)
    rows = np.concatenate(list(class_contrasts(h, np.arange(300) % 2, 2)))
    assert not rows.any()


def test_rows_of_means_are_sums_over_the_root_of_counts_in_steps():
    sums, counts = np.array([[8, -3], [10, 0]]), np.array([4, 5])
    assert mean_rows(sums, counts, 0).tolist() == [[4, -2], [4, 0]]
    exact = sums / np.sqrt(counts)[:, None]
    assert np.abs(mean_rows(sums, counts, -4) / 16 - exact).max() <= 1 / 32

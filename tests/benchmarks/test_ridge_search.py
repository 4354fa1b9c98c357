"""The ridge search against a plain loop over solves."""

import numpy as np
import pytest

from benchmarks.papers.ridge_search.search import HELD_OUT, RIDGES, search_ridge
from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.ridge import solve_ridge

RIDGES_HERE = (1e-2, 1.0, 1e2, 1e6)


def samples(count: int = 100) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, count)
    return rng.normal(size=(4, 12))[classes] + rng.normal(size=(count, 12)), classes


def test_every_ridge_is_solved_and_measured_on_what_was_held_out():
    features, classes = samples()
    found = search_ridge(features, classes, RIDGES_HERE, seed=3)
    order = np.random.default_rng(3).permutation(100)
    test, train = order[:20], order[20:]
    labels = np.eye(4)[classes]
    for one, ridge in zip(found.tried, RIDGES_HERE, strict=True):
        H = features[train]
        scores = features[test] @ solve_ridge(H.T @ H, H.T @ labels[train], ridge)
        assert one.ridge == ridge
        assert one.error == pytest.approx(((scores - labels[test]) ** 2).mean(), rel=1e-9)
        assert one.accuracy == (scores.argmax(axis=1) == classes[test]).mean()
    assert found.best.error == min(one.error for one in found.tried)


def test_it_looks_where_the_literature_does():
    assert (RIDGES[0], RIDGES[-1], len(RIDGES), HELD_OUT) == (1e-8, 1e8, 17, 0.2)


def test_samples_that_cannot_be_split_are_named():
    features, classes = samples(4)
    with pytest.raises(FeatureError, match=r"features: \(4, 12\) with 4 classes"):
        search_ridge(features, classes)

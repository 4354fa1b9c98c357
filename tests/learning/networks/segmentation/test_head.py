"""Rows by name with the background first, and growth out of the background's probability."""

import numpy as np
import pytest

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.head import BIAS, WEIGHT, grow_head
from fleetledger.learning.networks.segmentation.head import (
    BACKGROUND,
    grow_from_background,
    initial_pixel_head,
)

HEAD = initial_pixel_head(5, ("cat", "dog"), 3)


def probabilities(head, features):
    scores = features @ head[WEIGHT].T.astype(np.float64) + head[BIAS]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_the_background_has_the_first_row_and_names_make_the_others():
    assert HEAD[WEIGHT].shape == (3, 5)
    assert HEAD[BIAS].shape == (3,)
    other = initial_pixel_head(5, ("owl", "dog"), 3)
    for row in (0, 2):
        np.testing.assert_array_equal(HEAD[WEIGHT][row], other[WEIGHT][row])
    assert not np.array_equal(HEAD[WEIGHT][1], other[WEIGHT][1])


def test_a_head_of_no_classes_grows_by_name_like_any_other():
    begun = initial_pixel_head(5, (), 3)
    assert len(begun[WEIGHT]) == 1
    grown = grow_head(begun, ("cat", "dog"), 3)
    np.testing.assert_array_equal(grown[WEIGHT], HEAD[WEIGHT])
    np.testing.assert_array_equal(grown[BIAS], HEAD[BIAS])


@pytest.mark.parametrize("count", [1, 4])
def test_new_classes_share_the_probability_of_the_background(count):
    features = np.random.default_rng(0).normal(size=(20, 5))
    before = probabilities(HEAD, features)
    grown = grow_from_background({**HEAD, "other": HEAD[BIAS]}, count)
    after = probabilities(grown, features)
    assert after.shape == (20, 3 + count)
    np.testing.assert_allclose(after[:, 1:3], before[:, 1:3], atol=1e-6)
    shares = after[:, [0, *range(3, 3 + count)]]
    np.testing.assert_allclose(
        shares, before[:, :1] / (count + 1) * np.ones_like(shares), atol=1e-6
    )
    assert grown[WEIGHT].dtype == grown[BIAS].dtype == np.float32
    np.testing.assert_array_equal(grown["other"], HEAD[BIAS])


def test_growth_changes_nothing_in_place():
    before = HEAD[BIAS].copy()
    grow_from_background(HEAD, 3)
    np.testing.assert_array_equal(HEAD[BIAS], before)


def test_growth_by_nothing_is_nothing():
    grown = grow_from_background(HEAD, 0)
    np.testing.assert_array_equal(grown[WEIGHT], HEAD[WEIGHT])
    np.testing.assert_array_equal(grown[BIAS], HEAD[BIAS])


@pytest.mark.parametrize("arrays", [{}, {WEIGHT: np.zeros((0, 5)), BIAS: np.zeros(0)}])
def test_growth_needs_a_background_row(arrays):
    with pytest.raises(NetworkError, match="lack row 0"):
        grow_from_background(arrays, 1)


@pytest.mark.parametrize(
    ("names", "told"), [((BACKGROUND,), "row 0 already"), (("cat", "cat"), "twice")]
)
def test_a_name_that_is_taken_is_refused(names, told):
    with pytest.raises(NetworkError, match=told):
        initial_pixel_head(5, names, 3)

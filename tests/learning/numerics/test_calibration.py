"""The summed losses against a slow reference, and the scale that they lead to."""

import math

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.calibration import (
    LOGIT_SCALES,
    LOSS_UNIT,
    add_losses,
    best_scale,
    summed_losses,
)


def drawn(scale: float, count: int, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    """Scores, and classes drawn from softmax(scale * scores)."""
    draw = np.random.default_rng(seed)
    scores = draw.normal(0, 0.2, (count, 5)).astype(np.float32)
    weights = np.exp(scale * scores.astype(np.float64))
    shares = weights / weights.sum(axis=1, keepdims=True)
    return scores, [int(draw.choice(5, p=row)) for row in shares]


def test_losses_are_the_negative_log_likelihood_of_the_true_rows() -> None:
    scores, rows = drawn(10, 30)
    for scale, loss in zip(LOGIT_SCALES, summed_losses(scores, rows), strict=True):
        expected = 0.0
        for row, line in zip(rows, scores.astype(float).tolist(), strict=True):
            below = sum(math.exp(scale * (value - line[row])) for value in line)
            expected += math.log(below)
        assert loss * LOSS_UNIT == pytest.approx(expected, abs=30 * LOSS_UNIT)


def test_sums_over_devices_are_those_of_all_images_however_they_are_split() -> None:
    scores, rows = drawn(10, 60)
    parts = [summed_losses(scores[i::4], rows[i::4]) for i in range(4)]
    assert add_losses(parts) == add_losses(parts[::-1]) == summed_losses(scores, rows)


@pytest.mark.parametrize("scale", [4.0, 16.0, 64.0])
def test_the_scale_that_made_the_classes_is_found_to_a_step_of_the_grid(scale: float) -> None:
    assert scale / 1.5 < best_scale(summed_losses(*drawn(scale, 4000))) < scale * 1.5


def test_losses_are_convex_in_the_scale() -> None:
    losses = summed_losses(*drawn(16.0, 500))
    slopes = np.diff(losses) / np.diff(LOGIT_SCALES)
    assert (np.diff(slopes) > -1e-6).all()


def test_no_images_lose_nothing_and_bad_scores_are_refused() -> None:
    assert summed_losses(np.empty((0, 5), np.float32), []) == (0,) * len(LOGIT_SCALES)
    with pytest.raises(FeatureError, match="NaN"):
        summed_losses(np.full((1, 2), np.nan), [0])
    with pytest.raises(FeatureError, match="rows 1; give"):
        summed_losses(np.zeros((2, 2)), [0])

"""Pseudo labels against loops over pixels, and where nothing may be accepted."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.pixels import pixel_entropy
from fleetledger.learning.losses.segmentation.pseudo_labels import (
    adaptive_labels,
    median_labels,
    probable_labels,
    released_labels,
)
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import CHANNELS, NEVER, OLD, drawn

pytestmark = pytest.mark.torch

LOGITS, OLD_LOGITS, LABELS = drawn()
NOW, BEFORE, MASKS = (torch.from_numpy(array) for array in (LOGITS, OLD_LOGITS, LABELS))
THRESHOLDS = slow.adaptive_thresholds([(LOGITS, OLD_LOGITS, LABELS)], OLD, 0.5)
GAMMA = torch.tensor(THRESHOLDS, dtype=torch.float64) + 1e-9


@pytest.mark.parametrize(("unsure", "label"), [("background", 0), ("ignore", 255)])
def test_guesses_below_the_threshold_become_labels(unsure, label):
    found = adaptive_labels(NOW, BEFORE, MASKS, GAMMA, unsure)
    expected = slow.adaptive_labels(LOGITS, OLD_LOGITS, LABELS, GAMMA.tolist(), label)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert {1, 2, 3} <= set(found.unique().tolist()), "some of each class is accepted"


def test_an_entropy_at_the_threshold_is_accepted():
    guesses = BEFORE.argmax(dim=1)
    place = tuple(((MASKS == 0) & (guesses == 2)).nonzero()[0].tolist())
    thresholds = torch.full((OLD,), float(pixel_entropy(NOW)[place]), dtype=torch.float64)
    assert adaptive_labels(NOW, BEFORE, MASKS, thresholds)[place] == 2
    assert adaptive_labels(NOW, BEFORE, MASKS, thresholds - 1e-9)[place] == 0


def test_what_the_mask_shows_stays_and_so_do_ignored_pixels():
    found = adaptive_labels(NOW, BEFORE, MASKS, GAMMA, "ignore")
    shown = (MASKS == 5) | (MASKS == 255)
    assert torch.equal(found[shown], MASKS[shown])


def test_nothing_of_a_class_that_was_never_predicted_is_accepted_however_certain():
    certain = torch.zeros(1, CHANNELS, 1, 1).double()
    certain[:, 0] = 2000.0
    guess = torch.zeros(1, OLD, 1, 1).double()
    guess[:, NEVER] = 9.0
    background = torch.zeros(1, 1, 1, dtype=torch.int64)
    assert adaptive_labels(certain, guess, background, GAMMA) == 0
    assert adaptive_labels(certain, guess, background, GAMMA, "ignore") == 255


def test_the_ablation_has_one_probability_for_all_classes():
    found = probable_labels(BEFORE, MASKS, 0.7).numpy()
    for place in slow.pixels(LABELS):
        p = slow.probabilities(OLD_LOGITS, place)
        guess = slow.highest(p)
        asked = LABELS[place] == 0 and guess != 0
        expected = (guess if p[guess] >= 0.7 else 0) if asked else LABELS[place]
        assert found[place] == expected


def test_plop_ignores_what_is_less_certain_than_the_median():
    medians = slow.median_thresholds([(OLD_LOGITS, LABELS)], OLD)
    thresholds = torch.tensor(medians, dtype=torch.float64) + 1e-9
    found, factors = median_labels(BEFORE, MASKS, thresholds)
    expected, shares = slow.median_labels(OLD_LOGITS, LABELS, thresholds.tolist())
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_allclose(factors.numpy(), shares, rtol=1e-12)
    assert 0 in found, "background may be certain too"


def test_plops_factor_is_one_without_background():
    _, factors = median_labels(BEFORE, torch.full_like(MASKS, 5), torch.zeros(OLD).double())
    assert factors.tolist() == [1.0] * len(MASKS)


@pytest.mark.parametrize("threshold", [0.03, 0.06, torch.inf])
def test_released_labels_ignore_what_is_not_accepted(threshold):
    thresholds = torch.full((OLD,), threshold)
    found, factors = released_labels(BEFORE, MASKS, thresholds, CHANNELS)
    expected, shares = slow.released_labels(OLD_LOGITS, LABELS, thresholds.tolist(), CHANNELS)
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_allclose(factors.numpy(), shares, rtol=1e-12)


def test_the_released_factor_is_zero_for_an_image_of_new_classes_alone():
    _, factors = released_labels(BEFORE, torch.full_like(MASKS, 5), torch.ones(OLD), CHANNELS)
    assert factors.tolist() == [0.0] * len(MASKS)

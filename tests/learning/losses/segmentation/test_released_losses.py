"""What FBL's released program trains on against loops over pixels."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.released import (
    class_confidence,
    output_entropy,
    released_cross_entropy,
    released_magnitudes,
    released_weights,
    soft_label_loss,
)
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import (
    CHANNELS,
    OLD,
    TASKS,
    drawn,
)

pytestmark = pytest.mark.torch

LOGITS, OLD_LOGITS, SHOWN = drawn()
THRESHOLDS = [0.05] * OLD
LABELS, FACTORS = slow.released_labels(OLD_LOGITS, SHOWN, THRESHOLDS, CHANNELS)
NOW, BEFORE, MARKED = (torch.from_numpy(array) for array in (LOGITS, OLD_LOGITS, LABELS))
SHARES = torch.tensor(FACTORS, dtype=torch.float64)
FIRST_INCREMENT = (0, 1, 1, 1, 1, 2, 2)
FOURTH = (0, 1, 2, 3, 3, 4, 4)


def weights(tasks=TASKS, labels=MARKED):
    magnitudes = released_magnitudes(NOW, labels, OLD)
    return released_weights(magnitudes, labels, torch.tensor(tasks))


def slow_weights(tasks=TASKS):
    return slow.released_weights(LOGITS, LABELS, tasks, OLD)


def test_the_scene_has_pixels_of_all_kinds_of_classes():
    assert {0, 1, 2, 3, 5, 255} <= set(np.unique(LABELS))


@pytest.mark.parametrize("tasks", [FIRST_INCREMENT, TASKS, FOURTH])
def test_weights_are_the_programs(tasks):
    found, expected = weights(tasks), slow_weights(tasks)
    for place in slow.pixels(LABELS):
        assert float(found[place]) == pytest.approx(expected.get(place, 0.0), rel=1e-9)


def test_earlier_increments_weigh_more_since_groups_overlap():
    found = weights(FOURTH)
    assert float(found[MARKED == 2].mean()) > 1.3
    assert (found[MARKED == 5] == 1).all()


def test_cross_entropy_is_a_mean_over_all_pixels_with_factors_of_images():
    found = released_cross_entropy(NOW, MARKED, weights(), SHARES)
    expected = slow.released_cross_entropy(LOGITS, LABELS, slow_weights(), FACTORS)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_soft_labels_are_a_softmax_of_sigmoids_and_ones():
    found = soft_label_loss(NOW, BEFORE, MARKED)
    assert float(found) == pytest.approx(slow.soft_label_loss(LOGITS, OLD_LOGITS, LABELS))


def test_the_entropy_term_is_a_mean_over_channels_too():
    expected = slow.output_entropy(LOGITS, LABELS)
    assert float(output_entropy(NOW)) == pytest.approx(expected)


def test_confidence_compares_predicted_with_labelled_pixels():
    found = class_confidence(NOW, BEFORE, MARKED, weights())
    expected = slow.class_confidence(LOGITS, OLD_LOGITS, LABELS, slow_weights())
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_gradients_are_those_of_differences_with_weights_held():
    held = weights()
    losses = (
        lambda logits: released_cross_entropy(logits, MARKED, held, SHARES),
        lambda logits: soft_label_loss(logits, BEFORE, MARKED),
        output_entropy,
        lambda logits: class_confidence(logits, BEFORE, MARKED, held),
    )
    for loss in losses:
        assert torch.autograd.gradcheck(loss, (NOW.clone().requires_grad_(),))


def test_all_is_finite_where_every_pixel_is_ignored():
    ignored = torch.full_like(MARKED, 255)
    held = weights(labels=ignored)
    assert (held == 0).all()
    assert released_cross_entropy(NOW, ignored, held, torch.zeros(3).double()) == 0
    assert class_confidence(NOW, BEFORE, ignored, held) == 0
    assert torch.isfinite(soft_label_loss(NOW, BEFORE, ignored))

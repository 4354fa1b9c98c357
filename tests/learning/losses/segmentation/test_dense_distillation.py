"""LwF's, ILT's and MiB's losses against loops over pixels."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.dense_distillation import (
    encoder_distance,
    pixel_distillation,
    unbiased_cross_entropy,
    unbiased_distillation,
)
from fleetledger.learning.losses.segmentation.pixels import (
    counted_mean,
    pixel_cross_entropy,
)
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import OLD, drawn, drawn_maps

pytestmark = pytest.mark.torch

LOGITS, OLD_LOGITS, LABELS = drawn(3)
NOW, BEFORE, MASKS = (torch.from_numpy(array) for array in (LOGITS, OLD_LOGITS, LABELS))
ALL_NEW = np.where(LABELS == 0, 6, LABELS)


def test_distillation_is_over_the_old_channels():
    found = pixel_distillation(NOW, BEFORE, MASKS)
    assert float(found) == pytest.approx(slow.pixel_distillation(LOGITS, OLD_LOGITS, LABELS))


@pytest.mark.parametrize("labels", [LABELS, ALL_NEW])
def test_background_may_be_any_old_class(labels):
    found = unbiased_cross_entropy(NOW, torch.from_numpy(labels), OLD)
    assert float(found) == pytest.approx(slow.unbiased_cross_entropy(LOGITS, labels, OLD))


def test_without_old_classes_it_is_cross_entropy():
    plain = counted_mean(pixel_cross_entropy(NOW, MASKS), MASKS)
    assert float(unbiased_cross_entropy(NOW, MASKS, 1)) == pytest.approx(float(plain))


def test_the_old_background_may_be_any_new_class():
    found = unbiased_distillation(NOW, BEFORE, MASKS)
    assert float(found) == pytest.approx(slow.unbiased_distillation(LOGITS, OLD_LOGITS, LABELS))


def test_features_stay_at_a_mean_squared_distance():
    one, two = drawn_maps(1)[0], drawn_maps(2)[0]
    found = encoder_distance(torch.from_numpy(one), torch.from_numpy(two))
    total = sum((a - b) ** 2 for a, b in zip(one.flat, two.flat, strict=True))
    assert float(found) == pytest.approx(total / one.size)


def test_ignored_pixels_change_nothing():
    other = NOW.clone()
    other.movedim(1, -1)[MASKS == 255] += 7
    for loss in (pixel_distillation, unbiased_distillation):
        assert loss(other, BEFORE, MASKS) == loss(NOW, BEFORE, MASKS)
    assert unbiased_cross_entropy(other, MASKS, OLD) == unbiased_cross_entropy(NOW, MASKS, OLD)


def test_gradients_are_those_of_differences():
    losses = (
        lambda logits: pixel_distillation(logits, BEFORE, MASKS),
        lambda logits: unbiased_distillation(logits, BEFORE, MASKS),
        lambda logits: unbiased_cross_entropy(logits, MASKS, OLD),
    )
    for loss in losses:
        assert torch.autograd.gradcheck(loss, (NOW.clone().requires_grad_(),))

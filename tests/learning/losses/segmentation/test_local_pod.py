"""Local pooled outputs against loops over regions."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.local_pod import (
    folded,
    local_pod,
    pooled,
    pooled_distance,
)
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import (
    CHANNELS,
    OLD,
    drawn,
    drawn_maps,
)

pytestmark = pytest.mark.torch

MAPS, OLD_MAPS = drawn_maps(1), drawn_maps(2)
LOGITS, OLD_LOGITS, _ = drawn()


def t(values):
    return torch.from_numpy(values)


def test_maps_are_pooled_over_rows_and_columns_of_regions():
    found = pooled(t(MAPS[1]).square())
    for image, row in zip(MAPS[1], found, strict=True):
        np.testing.assert_allclose(sorted(row), sorted(slow.pooled(image)), rtol=1e-12)


def test_new_channels_are_added_to_background():
    found = folded(t(LOGITS), OLD).numpy()
    for place in slow.pixels(LOGITS[:, 0]):
        scores = slow.scores(LOGITS, place)
        expected = [scores[0] + sum(scores[OLD:]), *scores[1:OLD]]
        np.testing.assert_allclose(slow.scores(found, place), expected)


def test_the_loss_is_the_mean_over_maps_of_their_distances_with_factors():
    now = [*map(t, MAPS[:2]), folded(t(LOGITS), OLD)]
    old = [*map(t, OLD_MAPS[:2]), t(OLD_LOGITS)]
    factors = [0.01, 0.01, 0.0005]
    found = local_pod(list(zip(now, old, strict=True)), factors, 2, CHANNELS)
    pairs = [(a.numpy(), b.numpy()) for a, b in zip(now, old, strict=True)]
    assert float(found) == pytest.approx(slow.local_pod(pairs, factors, 2, CHANNELS), rel=1e-12)


def test_a_scale_without_a_pixel_in_a_region_is_left_out():
    found = pooled(t(MAPS[2]).square())
    expected = [slow.pooled(image, (1, 2)) for image in MAPS[2]]
    assert found.shape == (len(MAPS[2]), len(expected[0]))
    np.testing.assert_allclose(found.sum(dim=1), [sum(row) for row in expected], rtol=1e-12)


def test_gradients_are_those_of_differences():
    old = t(OLD_MAPS[1])
    assert torch.autograd.gradcheck(
        lambda now: pooled_distance(now, old), (t(MAPS[1]).requires_grad_(),)
    )


def test_a_model_that_has_not_moved_has_no_loss_and_a_finite_gradient():
    now = t(MAPS[0]).requires_grad_()
    loss = pooled_distance(now, now.detach().clone())
    (gradient,) = torch.autograd.grad(loss, now)
    assert loss == 0
    assert (gradient == 0).all()

"""RCIL's pooled cubes against loops over windows and channels."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.local_pod import PodFactors, folded
from fleetledger.learning.losses.segmentation.pooled_cubes import WINDOWS, pooled_cubes
from tests.learning.losses.segmentation.scene import CHANNELS, OLD, drawn, drawn_maps

pytestmark = pytest.mark.torch

MAPS, OLD_MAPS = drawn_maps(1)[:2], drawn_maps(2)[:2]
LOGITS, OLD_LOGITS, _ = drawn()
FACTORS = PodFactors(0.3, 0.07)


def t(values):
    return torch.from_numpy(np.asarray(values))


def window_means(values, side):
    """Means of one image's squares (c, h, w) over windows, zeros around it; one by one."""
    depth, height, width = values.shape
    half, found = side // 2, []
    for channel in range(depth):
        for top in range(-half, height + half - side + 1):
            for left in range(-half, width + half - side + 1):
                total = sum(
                    values[channel, y, x] ** 2
                    for y in range(max(0, top), min(height, top + side))
                    for x in range(max(0, left), min(width, left + side))
                )
                found.append(total / side**2)
    return np.array(found)


def channel_means(values):
    depth = len(values)
    return np.array(
        [
            sum(values[c] ** 2 for c in range(max(0, at - 1), min(depth, at + 2))) / 3
            for at in range(depth)
        ]
    ).ravel()


def distance(pool, now, old):
    return np.mean([np.linalg.norm(pool(a) - pool(b)) for a, b in zip(now, old, strict=True)])


def test_it_is_windows_of_all_maps_and_scores_and_channels_of_maps():
    small = folded(t(LOGITS), OLD).numpy(), OLD_LOGITS
    maps = list(zip(MAPS, OLD_MAPS, strict=True))
    spatial = [
        factor * np.mean([distance(lambda v, m=m: window_means(v, m), now, old) for m in WINDOWS])
        for factor, (now, old) in zip((0.3, 0.3, 0.07), [*maps, small], strict=True)
    ]
    channel = [
        factor * distance(channel_means, now, old)
        for factor, (now, old) in zip((0.3, 0.07), maps, strict=True)
    ]
    expected = (np.mean(spatial) + np.mean(channel)) * np.sqrt(CHANNELS / 2)
    pairs = [(t(now), t(old)) for now, old in maps]
    found = pooled_cubes(pairs, (t(small[0]), t(small[1])), FACTORS, 2, CHANNELS)
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_equal_maps_have_no_loss_and_a_finite_gradient():
    now = t(MAPS[0]).requires_grad_()
    found = pooled_cubes([(now, t(MAPS[0]))], (t(LOGITS), t(LOGITS)), FACTORS, 2, CHANNELS)
    found.backward()
    assert float(found.detach()) == 0
    assert bool(torch.isfinite(now.grad).all())

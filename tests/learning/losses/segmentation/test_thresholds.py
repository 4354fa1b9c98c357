"""Thresholds of FBL in both modes and of PLOP against loops over pixels."""

from math import inf, isinf

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.thresholds import (
    accepted_share,
    adaptive_thresholds,
    at_share,
    median,
    median_thresholds,
    released_quantile,
    released_thresholds,
)
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import CHANNELS, NEVER, OLD, drawn

pytestmark = pytest.mark.torch

BATCHES = [drawn(seed) for seed in range(3)]
TENSORS = [tuple(torch.from_numpy(array) for array in batch) for batch in BATCHES]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_adaptive_thresholds_are_algorithm_1s(share):
    found = adaptive_thresholds(TENSORS, share)
    expected = slow.adaptive_thresholds(BATCHES, OLD, share)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_nothing_is_accepted_of_background_and_of_a_class_never_predicted():
    found = adaptive_thresholds(TENSORS, 0.8)
    assert found[0] == found[NEVER] == -inf


def test_so_much_of_each_class_is_accepted_as_rho_says():
    thresholds = adaptive_thresholds([TENSORS[0]], 0.5)
    for k in (1, 2, 3):
        of_class = [
            slow.entropy(BATCHES[0][0], place)
            for place in slow.counted(BATCHES[0][2])
            if slow.highest(slow.scores(BATCHES[0][1], place)) == k
        ]
        accepted = sum(value <= float(thresholds[k]) + 1e-9 for value in of_class)
        assert accepted == min(len(of_class) // 2 + 1, len(of_class))


def test_the_index_does_not_pass_the_last_entropy():
    assert at_share(torch.tensor([3.0, 1.0, 2.0]), 1.0) == 3.0
    assert at_share(torch.tensor([3.0]), 0.2) == 3.0


def test_rho_rises_by_a_tenth_an_epoch_up_to_four_fifths():
    shares = [accepted_share(epoch) for epoch in range(8)]
    assert shares == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.8])
    assert accepted_share(2, rise=0.05) == pytest.approx(0.3)


def test_medians_are_of_pixels_labelled_background():
    found = median_thresholds([(old, labels) for _, old, labels in TENSORS])
    expected = slow.median_thresholds([(old, labels) for _, old, labels in BATCHES], OLD)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_a_median_is_numpys(number):
    values = np.random.default_rng(number).normal(size=number)
    assert float(median(torch.from_numpy(values))) == pytest.approx(np.median(values))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_released_thresholds_have_the_programs_running_sum(share):
    found = released_thresholds([(old, labels) for _, old, labels in TENSORS], CHANNELS, share)
    counts = slow.released_histograms([(old, labels) for _, old, labels in BATCHES], OLD, CHANNELS)
    expected = [slow.released_quantile(row, share) for row in counts]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_with_many_pixels_everything_is_accepted_unless_a_bin_alone_holds_the_share():
    spread = [10_000] * 50 + [0] * 50
    assert isinf(released_quantile(spread, 0.3))
    peaked = [1000, 100_000, *[1000] * 58, *[0] * 40]
    # The running sum is 0 after bin 0, so that bin 1 holds all that is wanted.
    assert released_quantile(peaked, 0.5) == pytest.approx((1 + 79_500 / 100_000) / 100)


def test_with_few_pixels_the_floor_is_left_or_nothing_is_accepted():
    few = [0] * 30 + [1] * 4 + [0] * 66
    assert released_quantile(few, 0.2) == 0.001
    assert released_quantile([0] * 100, 0.2) == 0.001
    # One pixel is wanted where the running sum is one: 0 / 0, and no entropy is below that.
    assert released_quantile([0] * 30 + [1] * 5 + [0] * 65, 0.2) == -inf

"""Resizing is linear interpolation between the centres of pixels."""

import numpy as np
import pytest

from fleetledger.learning.numerics.bilinear import resized

MAPS = np.random.default_rng(0).normal(size=(2, 3, 4, 5))


def slow_line(line, size):
    places = [(place + 0.5) * len(line) / size - 0.5 for place in range(size)]
    return np.interp(places, range(len(line)), line)


@pytest.mark.parametrize("size", [(4, 5), (8, 10), (7, 13), (3, 2), (1, 1)])
def test_each_line_is_interpolated_between_centres_and_goes_on_outside_them(size):
    wide = np.apply_along_axis(slow_line, -1, MAPS, size[1])
    expected = np.apply_along_axis(slow_line, -2, wide, size[0])
    np.testing.assert_allclose(resized(MAPS, size), expected, atol=1e-12)


def test_a_map_of_one_pixel_is_repeated():
    np.testing.assert_array_equal(resized(np.full((1, 1), 3.5), (2, 3)), np.full((2, 3), 3.5))


@pytest.mark.torch
def test_it_is_torchs_interpolation():
    import torch

    for size in ((9, 11), (48, 20), (3, 3)):
        theirs = torch.nn.functional.interpolate(torch.from_numpy(MAPS), size, mode="bilinear")
        np.testing.assert_allclose(resized(MAPS, size), theirs.numpy(), atol=1e-12)

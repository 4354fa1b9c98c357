"""Hues are turned as colorsys turns them, pixel by pixel; nothing else of a sample changes."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from PIL import Image

from fleetledger.simulator.datasets.hue import HueShifted, shift_hue
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.datasets.patterns import PatternSettings, split_patterns
from fleetledger.simulator.errors import DatasetError

SAMPLES = split_patterns(PatternSettings(classes=2, train=3, test=1, height=9, width=8), 1).train
SHIFTS = np.array([0.0, 0.1, -0.3, 0.5, -0.5, 0.25])


def slow(pixels: np.ndarray, shift: float) -> np.ndarray:
    turned = np.empty(pixels.shape)
    for place in np.ndindex(pixels.shape[:2]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixels[place] / 255))
        turned[place] = colorsys.hsv_to_rgb((hue + shift) % 1, saturation, value)
    return 255 * turned


@pytest.mark.parametrize("shift", SHIFTS[1:])
def test_every_pixel_has_the_turned_hue(shift: float) -> None:
    """But for steps of 1/255 of the circle, and 8 bits of saturation."""
    pixels = SAMPLES.images[0]
    found = np.asarray(shift_hue(Image.fromarray(pixels), shift)).astype(float)
    difference = np.abs(found - slow(pixels, shift))
    assert difference.max() < 16
    assert difference.mean() < 4


def test_a_turned_picture_is_another_sample_and_one_that_is_not_stays_itself() -> None:
    turned = HueShifted(SAMPLES, SHIFTS)
    assert turned.digest(0) == SAMPLES.digest(0)
    assert all(turned.digest(index) != SAMPLES.digest(index) for index in range(1, 6))
    assert turned.fingerprint != SAMPLES.fingerprint
    assert turned.fingerprint != HueShifted(SAMPLES, SHIFTS[::-1].copy()).fingerprint


def test_samples_take_their_shifts_with_them() -> None:
    turned = HueShifted(SAMPLES, SHIFTS)
    taken = turned.take(np.array([4, 1]))
    assert [taken.digest(0), taken.digest(1)] == [turned.digest(4), turned.digest(1)]
    assert taken.labels.tolist() == SAMPLES.labels[[4, 1]].tolist()


def test_grey_pictures_have_no_hue() -> None:
    grey = LabelledImages(SAMPLES.images[..., 0], SAMPLES.labels, SAMPLES.class_names)
    with pytest.raises(DatasetError, match="pictures of mode L have none"):
        HueShifted(grey, SHIFTS).picture(1)


def test_there_is_a_shift_for_each() -> None:
    with pytest.raises(DatasetError, match="5 for 6 pictures"):
        HueShifted(SAMPLES, SHIFTS[:5])

"""Classes of pixels at a picture's own size, from scores at the model's."""

import numpy as np
import pytest
from PIL import Image

from fleetledger.learning.numerics import framing
from fleetledger.learning.numerics.bilinear import resized
from fleetledger.learning.numerics.framing import OUTSIDE, Frame, classes_of_pixels, frame_of
from fleetledger.learning.numerics.preprocessing import sized_mask, sized_pixels
from tests.learning.test_preprocessing import Spec

STRETCHED = Spec(size=(9, 12))
CROPPED = Spec(size=(8, 8), resize="shorter_side_crop", shorter_side=11)


def scores(rows: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, height, width)).astype(np.float32)


@pytest.mark.parametrize("size", [(9, 12), (31, 17), (4, 5), (1, 40)])
def test_where_a_picture_is_stretched_its_scores_are_resized_and_then_compared(
    size: tuple[int, int],
) -> None:
    given = scores(5, *STRETCHED.size)
    found = classes_of_pixels(given, frame_of(size[1], size[0], STRETCHED), size)
    assert np.array_equal(found, resized(given, size).argmax(axis=0))


def slow_class(given: np.ndarray, frame: Frame, size: tuple[int, int], y: int, x: int) -> int:
    """One pixel: where its centre lies on the model's input, and the four scores around it."""
    row = (y + 0.5) * frame.high / size[0] - 0.5 - frame.top
    column = (x + 0.5) * frame.wide / size[1] - 0.5 - frame.left
    _, height, width = given.shape
    if not (-0.5 <= row <= height - 0.5 and -0.5 <= column <= width - 0.5):
        return OUTSIDE
    row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
    top, left = int(row), int(column)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = row - top, column - left
    sums = []
    for plane in given.astype(float):
        above = plane[top, left] * (1 - across) + plane[top, right] * across
        below = plane[bottom, left] * (1 - across) + plane[bottom, right] * across
        sums.append(above * (1 - down) + below * down)
    return int(np.argmax(sums))


@pytest.mark.parametrize("size", [(20, 33), (33, 20), (7, 9), (11, 11)])
def test_where_it_is_cropped_nothing_is_said_of_what_was_cut_off(size: tuple[int, int]) -> None:
    given = scores(4, *CROPPED.size, seed=1)
    frame = frame_of(size[1], size[0], CROPPED)
    found = classes_of_pixels(given, frame, size)
    slow = [[slow_class(given, frame, size, y, x) for x in range(size[1])] for y in range(size[0])]
    assert np.array_equal(found, slow)
    assert (found == OUTSIDE).any()


def test_bands_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    given, size = scores(6, *CROPPED.size, seed=2), (41, 57)
    frame = frame_of(57, 41, CROPPED)
    whole = classes_of_pixels(given, frame, size)
    monkeypatch.setattr(framing, "_BAND_NUMBERS", 1)
    assert np.array_equal(classes_of_pixels(given, frame, size), whole)


@pytest.mark.parametrize("spec", [STRETCHED, CROPPED])
def test_the_way_back_is_that_of_the_way_in(spec: Spec) -> None:
    """A mask that goes in as scores comes out where it was."""
    mask = np.zeros((64, 96), np.uint8)
    mask[20:44, 30:66] = 1
    sized = sized_mask(mask, spec)
    given = np.stack([sized == 0, sized == 1]).astype(np.float32)
    found = classes_of_pixels(given, frame_of(96, 64, spec), mask.shape)
    said = found != OUTSIDE
    assert (found[said] == mask[said]).mean() > 0.9
    picture = Image.fromarray(np.stack([mask * 200] * 3, axis=2))
    seen = sized_pixels(picture, spec)[:, :, 0] > 100
    assert (seen == (sized == 1)).mean() > 0.9

"""A mask comes to the model's size with the geometry of its picture, and no value is made up."""

import io

import numpy as np
import pytest
from PIL import Image

from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.framing import OUTSIDE
from fleetledger.learning.numerics.preprocessing import sized_mask, sized_pixels
from tests.learning.test_preprocessing import Spec

STRETCHED = Spec(size=(6, 9), interpolation="nearest")
CROPPED = Spec(size=(8, 8), interpolation="nearest", resize="shorter_side_crop", shorter_side=11)


def a_mask(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width)).astype(np.uint8)


@pytest.mark.parametrize("spec", [STRETCHED, CROPPED])
@pytest.mark.parametrize("size", [(13, 17), (17, 13), (5, 4), (40, 9), (11, 11)])
def test_a_mask_follows_its_picture(spec: Spec, size: tuple[int, int]) -> None:
    mask = a_mask(*size)
    picture = Image.fromarray(np.stack([mask] * 3, axis=2))
    assert np.array_equal(sized_mask(mask, spec), sized_pixels(picture, spec)[:, :, 0])


def slow_nearest(mask: np.ndarray, height: int, width: int) -> np.ndarray:
    """Each pixel takes the one in which its centre lies."""
    rows = [int((row + 0.5) * len(mask) / height) for row in range(height)]
    columns = [int((column + 0.5) * mask.shape[1] / width) for column in range(width)]
    return np.array([[mask[row, column] for column in columns] for row in rows])


def test_the_values_are_those_of_the_slow_reference_whatever_pictures_are_resized_with() -> None:
    mask = a_mask(21, 34)
    for interpolation in ("nearest", "bilinear", "bicubic", "lanczos"):
        spec = Spec(size=(10, 7), interpolation=interpolation)
        assert np.array_equal(sized_mask(mask, spec), slow_nearest(mask, 10, 7))
        cropped = Spec(
            size=(5, 6), interpolation=interpolation, resize="shorter_side_crop", shorter_side=7
        )
        # 21 x 34 comes to 7 x 11: one row and two columns are left out before the crop.
        expected = slow_nearest(mask, 7, 11)[1:6, 2:8]
        assert np.array_equal(sized_mask(mask, cropped), expected)


def test_an_edge_of_two_classes_makes_no_third() -> None:
    mask = np.repeat(np.array([[1, 9]], np.uint8), 31, axis=1).repeat(40, axis=0)
    assert set(np.unique(sized_mask(mask, Spec(size=(17, 23))))) == {1, 9}


def test_what_a_crop_has_beyond_the_edge_is_left_out() -> None:
    spec = Spec(size=(6, 8), resize="shorter_side_crop", shorter_side=4)
    sized = sized_mask(np.full((4, 4), 7, np.uint8), spec)
    expected = np.full((6, 8), OUTSIDE)
    expected[1:5, 2:6] = 7
    assert np.array_equal(sized, expected)


def test_a_mask_of_an_upright_picture_lies_on_what_is_turned() -> None:
    mask = a_mask(6, 10)
    turned = Image.fromarray(np.stack([mask] * 3, axis=2)).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    stream = io.BytesIO()
    turned.save(stream, "PNG", exif=exif)
    found = sized_pixels(stream.getvalue(), STRETCHED)
    assert np.array_equal(sized_mask(mask, STRETCHED), found[:, :, 0])


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((2, 3, 3), np.uint8),
        np.zeros((2, 3), np.int64),
        np.zeros((0, 3), np.uint8),
        np.zeros((9000, 9000), np.uint8),
    ],
)
def test_what_is_no_mask_is_refused(mask: np.ndarray) -> None:
    with pytest.raises(ImageError):
        sized_mask(mask, STRETCHED)

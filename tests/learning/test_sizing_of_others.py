"""Pictures are sized as others size them: by OpenCV's `resize`, and the letterbox of detectors.

The figures are those of OpenCV 5.0.0 (`cv2.resize` with `INTER_LINEAR`, `cv2.copyMakeBorder` with
the sizes and borders of Ultralytics' `LetterBox`).
"""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from fleetledger.learning.numerics.framing import OUTSIDE, classes_of_pixels, frame_of
from fleetledger.learning.numerics.opencv_resize import resize_bilinear
from fleetledger.learning.numerics.preprocessing import preprocess, sized_mask, sized_pixels
from fleetledger.schemas.models import Preprocessing

Size = tuple[int, int]
RESIZED = [
    (
        (5, 7),
        (3, 4),
        "346f8a812762a4953a9d629d649f3a82bd1880bb165e993487629d76a6e19aca70936369",
    ),
    (
        (3, 4),
        (5, 9),
        "003b76114c873e79b46b97d297528dc40d498e2c674959942f6aa50f4a85205b85508b8779ac867b6971"
        "7d265c6a47825577b24d88c325609b3873836ba6448fca13508b46114c793570ab68a3de7bb6f168a244"
        "629d47548f50498455518c475a95394f8a67417b9d3b76b194cf0a7eb91f4580581a5582528d488bc60f"
        "609b39266172114c87",
    ),
    (
        (8, 6),
        (4, 3),
        "48837e5f5a95b6716c736e697e797449847f86817c85807b847f7a813c7774af6a67625d",
    ),
    (
        (9, 4),
        (2, 7),
        "78b32e609b43397466528d486ba62f447f752c67a22c67a26d4d88d5235ebe793493ce1c69a4844f8ac5",
    ),
]
"""Size, wanted size, and OpenCV's pixels of `drawn`."""
BOXED = [
    (
        (5, 9),
        (4, 4),
        "727272727272727272727272619c5f6295d08b76b174af7aa7427db1447f2c5f82569184727272727272"
        "727272727272",
    ),
    (
        (9, 5),
        (4, 5),
        "72727269a4677a8db0727272727272727272a6396cc0528672727272727272727266888c70ac3e727272"
        "72727272727271346f65a093727272727272",
    ),
    (
        (4, 4),
        (3, 6),
        "7272721752868c5c814e65a07272727272727272725b9651518c474782a8727272727272727272698097"
        "926388bc4579727272727272",
    ),
]


def drawn(height: int, width: int) -> np.ndarray:
    row, column, channel = np.ogrid[:height, :width, :3]
    return ((row * row * 37 + column * 101 + row * column * 13 + channel * 59) % 256).astype("u1")


def spec(size: Size, **changes: Any) -> Preprocessing:
    told = {"mode": "RGB", "size": size, "mean": (0, 0, 0), "deviation": (1, 1, 1)}
    return Preprocessing.model_validate(
        {"divide_by": 1, "input_name": "image", "interpolation": "opencv_bilinear"} | told | changes
    )


@pytest.mark.parametrize(("has", "wants", "figures"), RESIZED)
def test_resizing_is_opencvs_to_the_digit(has: Size, wants: Size, figures: str) -> None:
    expected = np.frombuffer(bytes.fromhex(figures), np.uint8).reshape(*wants, 3)
    assert np.array_equal(resize_bilinear(drawn(*has), *wants), expected)
    assert np.array_equal(sized_pixels(Image.fromarray(drawn(*has)), spec(wants)), expected)
    grey = spec(wants, mode="L", mean=(0,), deviation=(1,))
    one = sized_pixels(Image.fromarray(drawn(*has)[:, :, 0]), grey)
    assert np.array_equal(one[:, :, 0], expected[:, :, 0])


def slow(pixels: np.ndarray, high: int, wide: int) -> np.ndarray:
    """Bilinear between the two nearest pixels along each side, centres at halves, in float64."""
    height, width, channels = pixels.shape
    made = np.empty((high, wide, channels))
    for row in range(high):
        for column in range(wide):
            y = min(max((row + 0.5) * height / high - 0.5, 0), height - 1)
            x = min(max((column + 0.5) * width / wide - 0.5, 0), width - 1)
            top, left = int(y), int(x)
            below, right = min(top + 1, height - 1), min(left + 1, width - 1)
            upper = pixels[top, left] * (1 - x + left) + pixels[top, right] * (x - left)
            lower = pixels[below, left] * (1 - x + left) + pixels[below, right] * (x - left)
            made[row, column] = upper * (1 - y + top) + lower * (y - top)
    return made


@pytest.mark.parametrize("wants", [(1, 1), (4, 3), (6, 10), (12, 10), (13, 31)])
def test_resizing_is_bilinear_within_a_level(wants: Size) -> None:
    pixels = drawn(12, 10)
    assert np.abs(resize_bilinear(pixels, *wants) - slow(pixels, *wants)).max() <= 1


@pytest.mark.parametrize(("has", "wants", "figures"), BOXED)
def test_a_letterbox_is_that_of_detectors(has: Size, wants: Size, figures: str) -> None:
    expected = np.frombuffer(bytes.fromhex(figures), np.uint8).reshape(*wants, 3)
    boxed = sized_pixels(Image.fromarray(drawn(*has)), spec(wants, resize="letterbox"))
    assert np.array_equal(boxed, expected)
    black = sized_pixels(Image.fromarray(drawn(*has)), spec(wants, resize="letterbox", pad=0))
    other = expected != boxed[0, 0]
    assert np.array_equal(black[other], expected[other])
    assert not black[0, 0].any()


def test_channels_may_come_the_other_way_round() -> None:
    picture = Image.fromarray(drawn(5, 7))
    mean, deviation = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    rgb = preprocess(picture, spec((3, 4), mean=mean, deviation=deviation))
    turned = spec((3, 4), mode="BGR", mean=mean[::-1], deviation=deviation[::-1])
    assert np.array_equal(preprocess(picture, turned), rgb[::-1])
    last = turned.model_copy(update={"layout": "NHWC"})
    assert np.array_equal(preprocess(picture, last), rgb[::-1].transpose(1, 2, 0))


def test_a_mask_lies_in_a_letterbox_as_its_picture_does_and_pixels_find_the_way_back() -> None:
    boxed = spec((8, 8), resize="letterbox")
    mask = np.repeat(np.array([[1], [2]], np.uint8), 2, axis=0).repeat(8, axis=1)  # 4 high, 8 wide
    sized = sized_mask(mask, boxed)
    assert (sized[[0, 1, 6, 7]] == OUTSIDE).all()
    assert np.array_equal(sized[2:6], mask)
    scores = np.stack([sized == row for row in range(3)]).astype(np.float32)
    assert np.array_equal(classes_of_pixels(scores, frame_of(8, 4, boxed), (4, 8)), mask)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pad": 0}, "pad: 0 has no meaning with resize 'stretch'; leave it out, or say"),
        ({"resize": "letterbox", "shorter_side": 9}, "shorter_side: has no meaning"),
        ({"resize": "letterbox", "pad": 256}, "pad"),
        ({"dtype": "uint8", "divide_by": 255}, "set divide_by = 1, mean = .* and deviation = "),
        ({"dtype": "uint8", "mean": (1, 0, 0)}, "levels from 0 to 255 as they are; set"),
    ],
)
def test_settings_that_mean_nothing_together_are_refused(changes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spec((4, 4), **changes)

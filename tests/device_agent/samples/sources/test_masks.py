"""Masks are numbers, whatever colours a file gives them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.samples.sources.masks import (
    check_same_size,
    check_values,
    decode_mask,
    values_in,
)
from fleetledger.learning.errors import ImageError
from tests.device_agent.samples.sources.drawing import index_png, picture, save, values


def decoded(image: Image.Image, folder: Path, name: str = "mask.png", **options) -> np.ndarray:
    return decode_mask(save(image, folder / name, **options).read_bytes())


def test_palette_indices_and_grey_values_are_the_same_mask(tmp_path: Path) -> None:
    mask = values()
    assert np.array_equal(decoded(index_png(mask), tmp_path), mask)
    assert np.array_equal(decoded(Image.fromarray(mask), tmp_path), mask)
    assert index_png(mask).mode == "P"


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_palette_of_few_colours_keeps_its_indices(bits: int, tmp_path: Path) -> None:
    mask = (values() % 255).astype(np.uint8) % 2**bits
    assert np.array_equal(decoded(index_png(mask), tmp_path, bits=bits), mask)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (picture(), "mode RGB with 8 bits"),
        (picture().convert("RGBA"), "mode RGBA"),
        (Image.fromarray(values()).convert("1"), "mode 1 with 1 bit a"),
        (Image.fromarray(values().astype(np.uint16)), "mode I;16 with 16 bits"),
    ],
)
def test_pictures_that_hold_no_class_numbers_are_refused(image, told: str, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=told):
        decoded(image, tmp_path)


def test_grey_of_four_bits_is_refused_because_it_would_be_stretched(tmp_path: Path) -> None:
    """Bytes of a grey PNG, 2 x 1 pixels of four bits, as other programs than Pillow write it."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 2, 1, 4, 0, 0, 0, 0)
    pixels = zlib.compress(b"\x00\x12")
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels)
    with pytest.raises(ImageError, match="mode L with 4 bits"):
        decode_mask(data + chunk(b"IEND", b""))


def test_a_mask_saved_as_jpeg_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="a JPEG file; save it as a PNG"):
        decoded(Image.fromarray(values()), tmp_path, "mask.jpg")


def test_a_torn_mask_is_refused(tmp_path: Path) -> None:
    large = np.random.default_rng(0).integers(0, 3, (90, 90), dtype=np.uint8)
    data = save(Image.fromarray(large), tmp_path / "mask.png").read_bytes()
    for torn in (data[: len(data) // 2], b"nothing"):
        with pytest.raises(ImageError, match="replace the file"):
            decode_mask(torn)


def test_values_are_listed_ascending() -> None:
    assert values_in(np.array([[255, 3], [0, 3]], np.uint8)) == [0, 3, 255]


def test_a_value_without_a_class_is_named() -> None:
    mask = np.array([[0, 1, 7, 255, 9]], np.uint8)
    check_values(mask, {1, 7, 9}, "never")
    with pytest.raises(ImageError, match="the value 7, 9; mend it"):
        check_values(mask, {1}, "mend it")


def test_another_size_is_named() -> None:
    check_same_size((3, 4), (3, 4))
    with pytest.raises(ImageError, match=r"4 x 3 pixels .* picture of 3 x 4"):
        check_same_size((3, 4), (4, 3))

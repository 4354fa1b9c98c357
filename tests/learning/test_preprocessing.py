"""What preprocessing promises: the same numbers everywhere, and no surprise from a bad file."""

import io
import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image

from fleetledger.learning.errors import ImageError, LearningError
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import Preprocessing


@dataclass(frozen=True)
class Spec:
    mode: Literal["L", "RGB"] = "RGB"
    size: tuple[int, int] = (5, 4)
    interpolation: str = "bilinear"
    resize: Literal["stretch", "shorter_side_crop"] = "stretch"
    shorter_side: int | None = None
    pad: int | None = None
    divide_by: int = 255
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    deviation: tuple[float, ...] = (0.229, 0.224, 0.225)
    layout: Literal["NCHW", "NHWC"] = "NCHW"


GREY = Spec(mode="L", divide_by=1, mean=(0.0,), deviation=(1.0,))


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3))
    return Image.fromarray(values.astype(np.uint8))


def encoded(image: Image.Image, format_name: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format_name, **options)
    return stream.getvalue()


def slow_normalise(image: Image.Image, spec: Spec) -> np.ndarray:
    """One pixel and channel at a time, each step rounded to float32."""
    height, width = spec.size
    result = np.empty((3, height, width), np.float32)
    for row in range(height):
        for column in range(width):
            for channel in range(3):
                value = np.float32(image.getpixel((column, row))[channel])
                value = value / np.float32(spec.divide_by)
                value = value - np.float32(spec.mean[channel])
                result[channel, row, column] = value / np.float32(spec.deviation[channel])
    return result


def test_the_numbers_are_those_of_the_slow_reference() -> None:
    image = picture(5, 4)
    assert np.array_equal(preprocess(image, Spec()), slow_normalise(image, Spec()))


def test_a_file_and_the_open_image_give_the_same_array() -> None:
    image = picture(30, 20)
    array = preprocess(encoded(image), Spec())
    assert array.dtype == np.float32
    assert array.flags["C_CONTIGUOUS"]
    assert np.array_equal(array, preprocess(image, Spec()))


def test_the_layouts_hold_the_same_numbers_in_another_order() -> None:
    image = picture(30, 20)
    channels_last = preprocess(image, replace(Spec(), layout="NHWC"))
    assert channels_last.shape == (5, 4, 3)
    assert np.array_equal(channels_last.transpose(2, 0, 1), preprocess(image, Spec()))


@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_stretching_is_pillows_own_resize(name: str) -> None:
    image = picture(31, 17)
    expected = image.resize((4, 5), Image.Resampling[name.upper()])
    array = preprocess(image, replace(Spec(), interpolation=name))
    assert np.array_equal(array, slow_normalise(expected, Spec()))


@pytest.mark.parametrize(("height", "width"), [(31, 17), (17, 31), (20, 20), (9, 40)])
def test_the_shorter_side_rule_keeps_proportions_and_crops_the_middle(
    height: int, width: int
) -> None:
    spec = replace(Spec(), resize="shorter_side_crop", shorter_side=9)
    image = picture(height, width)
    short = min(height, width)
    new_width, new_height = int(9 * width / short), int(9 * height / short)
    resized = image.resize((new_width, new_height), Image.Resampling.BILINEAR)
    top, left = round((new_height - 5) / 2.0), round((new_width - 4) / 2.0)
    expected = slow_normalise(resized.crop((left, top, left + 4, top + 5)), spec)
    assert np.array_equal(preprocess(image, spec), expected)


def test_a_photograph_taken_sideways_is_turned_upright() -> None:
    image = picture(4, 5)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = preprocess(encoded(image, exif=exif), Spec())
    assert np.array_equal(turned, preprocess(image.transpose(Image.Transpose.ROTATE_270), Spec()))


def test_sixteen_bit_grey_keeps_its_upper_byte_instead_of_being_clipped() -> None:
    deep = np.arange(20, dtype=np.uint16).reshape(5, 4) * 3000
    array = preprocess(encoded(Image.fromarray(deep)), GREY)
    assert np.array_equal(array[0], (deep >> 8).astype(np.float32))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_usual_kind_of_picture_is_brought_to_the_mode(mode: str) -> None:
    image = picture(5, 4).convert(mode)
    grey = np.asarray(image.convert("L"), np.float32)
    assert np.array_equal(preprocess(image, GREY)[0], grey)


def test_the_schema_of_the_wire_is_a_specification() -> None:
    schema = Preprocessing(
        mode="RGB", size=(5, 4), mean=Spec().mean, deviation=Spec().deviation, input_name="x"
    )
    image = picture(12, 10)
    array = preprocess(image, schema)
    assert array.shape == schema.shape
    assert np.array_equal(array, preprocess(image, Spec()))


def test_bytes_that_are_no_picture_are_refused_with_a_way_out() -> None:
    with pytest.raises(ImageError, match=r"11 bytes are no picture .* replace the file"):
        preprocess(b"not a photo", Spec())
    assert issubclass(ImageError, LearningError)


@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "BMP", "TIFF", "WEBP", "GIF"])
def test_a_file_torn_in_the_middle_is_refused(format_name: str) -> None:
    data = encoded(picture(64, 64), format_name)
    with pytest.raises(ImageError):
        preprocess(data[: len(data) // 2], Spec())


def test_a_huge_picture_is_refused_before_it_is_decoded() -> None:
    small = encoded(picture(9, 9))
    with pytest.raises(ImageError, match="9 x 9 pixels exceed 80; scale it down"):
        preprocess(small, Spec(), max_pixels=80)
    # Width and height in the header are raised and its checksum mended; no pixels stand behind it.
    header = b"IHDR" + (20_000).to_bytes(4, "big") * 2 + small[24:29]
    checksum = zlib.crc32(header).to_bytes(4, "big")
    with pytest.raises(ImageError, match=r"20000 x 20000|decompression bomb"):
        preprocess(small[:12] + header + checksum + small[33:], Spec())


def test_a_strip_whose_crop_would_need_gigabytes_is_refused() -> None:
    spec = replace(Spec(), resize="shorter_side_crop", shorter_side=1000)
    with pytest.raises(ImageError, match="200 x 1 pixels are too narrow"):
        preprocess(picture(1, 200), spec)


def test_pixels_without_a_known_range_are_refused() -> None:
    with pytest.raises(ImageError, match="floating-point"):
        preprocess(Image.new("F", (4, 5)), GREY)
    with pytest.raises(ImageError, match="exceed 16 bits"):
        preprocess(Image.new("I", (4, 5), 1 << 20), GREY)


def test_a_format_that_would_start_another_program_is_not_opened() -> None:
    with pytest.raises(ImageError, match="no picture"):
        preprocess(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", Spec())


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"\0\0\0\x18ftypmif1", "HEIC"),
        (b"\0\0\0\x1cftypavif", "AVIF"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"\xff\x4f\xff\x51", "JPEG 2000"),
        (b"\xff\x0a", "JPEG XL"),
    ],
)
def test_a_kind_that_is_not_read_is_named(begin: bytes, kind: str) -> None:
    with pytest.raises(ImageError, match=f"{kind}, which is not read; convert it to JPEG or PNG"):
        preprocess(begin + bytes(50), Spec())


def test_no_flipped_bit_of_a_png_becomes_another_picture() -> None:
    image = picture(6, 5)
    whole, expected = encoded(image), preprocess(image, Spec())
    for place in range(len(whole) - 12, 7, -1):  # but for the end mark
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        try:
            given = preprocess(bytes(flipped), Spec())
        except ImageError:
            continue
        assert np.array_equal(given, expected), place


def test_a_jpeg_of_a_large_sensor_is_decoded_at_half_of_its_sides() -> None:
    shades = np.linspace(0, 255, 400, dtype=np.uint8)
    image = Image.fromarray(np.repeat(shades[np.newaxis], 300, axis=0))
    spec = Spec(mode="L", divide_by=1, mean=(0.0,), deviation=(1.0,))
    small = preprocess(encoded(image, "JPEG"), spec, max_pixels=400 * 300 // 4)
    assert np.abs(small - preprocess(image, spec)).max() < 8
    for format_name, options in (("JPEG", {"progressive": True}), ("PNG", {})):
        with pytest.raises(ImageError, match="400 x 300 pixels exceed 30000"):
            preprocess(encoded(image, format_name, **options), spec, max_pixels=30_000)
    with pytest.raises(ImageError, match="50 x 38 pixels exceed 1000"):
        preprocess(encoded(image, "JPEG"), spec, max_pixels=1000)


def test_a_picture_of_fifty_million_pixels_is_taken() -> None:
    image = Image.new("L", (8192, 6144), 200)
    given = preprocess(encoded(image, "JPEG"), GREY)
    assert np.abs(given - 200).max() <= 1

"""From a sample to the model's input tensor: the one function that every program uses.

Agent, coordinator and simulator must feed the frozen model the same numbers for the same sample,
so there is no second implementation. Texts become token ids (`learning.numerics.tokens`), arrays
are normalised (`learning.numerics.arrays`). For
pictures the steps are closed and ordered: decode, turn upright (EXIF), convert to the mode, resize,
crop, divide, subtract the mean, divide by the deviation, order axes.
Resizing is Pillow's, with its antialiasing, or OpenCV's; the crop follows torchvision's rounding,
and a letterbox that of Ultralytics, so that published networks see what they were trained on.
"""

from __future__ import annotations

import io
import struct
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from fleetledger.learning.errors import ArrayError, ImageError, TextError
from fleetledger.learning.numerics.arrays import ArraySpec, array_input
from fleetledger.learning.numerics.framing import OUTSIDE, Frame, Mode, PreprocessingSpec, frame_of
from fleetledger.learning.numerics.opencv_resize import resize_bilinear
from fleetledger.learning.numerics.tokens import TextSpec, token_ids

MAX_PIXELS = 64_000_000
"""Pictures with more pixels are refused before they are decoded (192 MB as RGB)."""
MOST_OF_A_JPEG = 170_000_000
"""Pixels of a JPEG that is decoded at a part of its sides, as it has more than `MAX_PIXELS`."""
_HEIC = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"})
_AVIF = frozenset({b"avif", b"avis"})
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""Formats that Pillow may decode; none of them starts another program. The usual ones come first,
because Pillow loads all its decoders into memory when it meets a name beyond the first five."""

PAD = 114
"""Level of a letterbox's borders unless another is set: that of most detectors' training."""
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_DEEP_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
_UNREAD_FAULTS = (
    *(OSError, ValueError, SyntaxError, EOFError, ArithmeticError, LookupError),
    *(struct.error, zlib.error),
)
"""What Pillow's decoders raise for damaged files; `UnidentifiedImageError` is an `OSError`."""


AnySpec = PreprocessingSpec | TextSpec | ArraySpec


def preprocess(
    sample: bytes | Image.Image | npt.NDArray[Any], spec: AnySpec, *, max_pixels: int = MAX_PIXELS
) -> npt.NDArray[Any]:
    """Return the model's input for one sample.

    It is (C, H, W) float32, or (H, W, C) for NHWC, of a picture, (length,) int64 of a text, and
    float32 of the spec's shape of an array. `sample` is the content of a file, an image that is
    already open, or an array of numbers. An alpha channel is ignored, of an animation the first
    frame counts, 16-bit grey keeps its upper 8 bits. Raises `ImageError` if a picture cannot be
    decoded or has more than `max_pixels` pixels, `TextError` as `token_ids` does, `ArrayError` as
    `array_input` does.
    """
    if spec.mode == "text":
        if not isinstance(sample, bytes):
            what = "a picture" if isinstance(sample, Image.Image) else "an array of numbers"
            raise TextError(f"text: {what}, where the model takes text; give it text files")
        return token_ids(sample, spec)
    if spec.mode == "array":
        if isinstance(sample, Image.Image):
            raise ArrayError("array: a picture, where the model takes arrays; give it .npy files")
        return array_input(sample, spec)
    if isinstance(sample, np.ndarray):
        raise ImageError("image: an array of numbers, where the model takes pictures; give images")
    return _normal_pixels(sized_pixels(sample, spec, max_pixels=max_pixels), spec)


def network_input(
    sample: bytes | Image.Image | npt.NDArray[Any], spec: PreprocessingSpec | ArraySpec
) -> npt.NDArray[Any]:
    """Return what a network is trained on: uint8 (C, H, W) of a picture, float32 of an array.

    Raises `ImageError`, `ArrayError` as `preprocess` does.
    """
    if spec.mode == "array" or isinstance(sample, np.ndarray):
        return preprocess(sample, spec)
    pixels: npt.NDArray[np.uint8] = sized_pixels(sample, spec).transpose(2, 0, 1)
    return pixels


def network_inputs(count: int, spec: PreprocessingSpec | ArraySpec) -> npt.NDArray[Any]:
    """Return room for so many samples as `network_input` gives them."""
    if spec.mode == "array":
        return np.empty((count, *spec.shape), np.float32)
    channels = 1 if spec.mode == "L" else 3
    return np.empty((count, channels, *spec.size), np.uint8)


def _normal_pixels(
    pixels: npt.NDArray[np.uint8], spec: PreprocessingSpec
) -> npt.NDArray[np.float32]:
    values = _normalised_levels(spec.divide_by, tuple(spec.mean), tuple(spec.deviation))
    normal = np.empty((len(values), *pixels.shape[:2]), np.float32)
    for channel, plane in enumerate(normal):
        np.take(values[channel], pixels[:, :, channel], out=plane, mode="clip")
    return normal if spec.layout == "NCHW" else np.ascontiguousarray(normal.transpose(1, 2, 0))


def sized_pixels(
    picture: bytes | Image.Image, spec: PreprocessingSpec, *, max_pixels: int = MAX_PIXELS
) -> npt.NDArray[np.uint8]:
    """Return one picture at the model's size before it is normalised: uint8 (H, W, C).

    Raises `ImageError` if it cannot be decoded or has more than `max_pixels` pixels.
    """
    image = open_picture(picture) if isinstance(picture, bytes) else picture
    _smaller(image, max_pixels)
    check_pixels(image, max_pixels)
    pixels = np.asarray(_resize(decode_picture(image, spec.mode), spec))
    pixels = pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if spec.mode == "BGR" else pixels


def sized_mask(mask: npt.NDArray[np.uint8], spec: PreprocessingSpec) -> npt.NDArray[np.uint8]:
    """Return a mask (h, w) at the model's size (H, W): the geometry of `sized_pixels`, nearest.

    `mask` belongs to the picture when it is upright. No value is made that it does not have, but
    for `OUTSIDE` where a crop reaches over its edge. Raises `ImageError` for any other shape, for
    values of another type, and where the picture would be refused.
    """
    if mask.ndim != 2 or not mask.size or mask.dtype != np.uint8:
        raise ImageError(
            f"mask: {mask.dtype} of shape {mask.shape}; give uint8 of shape (height, width)"
        )
    image = Image.fromarray(mask)
    check_pixels(image)
    frame, resized = _resized(image, spec, Image.Resampling.NEAREST)
    height, width = spec.size
    sized = Image.new("L", (width, height), OUTSIDE)
    sized.paste(resized, (-frame.left, -frame.top))
    return np.array(sized)


@lru_cache(maxsize=8)
def _normalised_levels(
    divide_by: int, mean: tuple[float, ...], deviation: tuple[float, ...]
) -> npt.NDArray[np.float32]:
    """Return what becomes of each of the 256 levels, (C, 256).

    Looking them up is several times faster than computing every pixel, and gives the same bits.
    """
    scaled = np.arange(256, dtype=np.float32)[:, np.newaxis] / np.float32(divide_by)
    normal = (scaled - np.asarray(mean, np.float32)) / np.asarray(deviation, np.float32)
    return np.ascontiguousarray(normal.T)


def open_picture(data: bytes) -> Image.Image:
    """Read the header only; raise `ImageError` if it is no picture of one of `FORMATS`."""
    _check_kind(data)
    try:
        opened = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise ImageError(f"image: {error}; scale it down") from error
    except UnidentifiedImageError as error:
        # Pillow's own text names an object in memory, which differs from try to try.
        raise ImageError(
            f"image: {len(data)} bytes are no picture that can be read; "
            f"replace the file by one of {', '.join(FORMATS)}"
        ) from error
    except _UNREAD_FAULTS as error:
        raise ImageError(
            f"image: {len(data)} bytes are no picture that can be read ({error}); "
            f"replace the file by one of {', '.join(FORMATS)}"
        ) from error
    if opened.format == "PNG":
        _check_sums(data)
    return opened


def _check_sums(data: bytes) -> None:
    """Hold the parts of a PNG to their checksums, which decoding does not; raise `ImageError`."""
    try:
        Image.open(io.BytesIO(data), formats=("PNG",)).verify()
    except _UNREAD_FAULTS as error:
        raise ImageError(
            f"image: the picture is damaged ({error}); replace the file or copy it again"
        ) from error


def _check_kind(data: bytes) -> None:
    """Raise `ImageError` for a picture of a kind that is told by its first bytes and not read."""
    brand = data[8:12] if data[4:8] == b"ftyp" else b""
    kind = "HEIC" if brand in _HEIC else "AVIF" if brand in _AVIF else ""
    kind = "JPEG XL" if data[:2] == b"\xff\x0a" or data[4:8] == b"JXL " else kind
    kind = "JPEG 2000" if data[4:8] == b"jP  " or data[:4] == b"\xff\x4f\xff\x51" else kind
    if kind:
        raise ImageError(f"image: {kind}, which is not read; convert it to JPEG or PNG")


def _smaller(image: Image.Image, max_pixels: int) -> None:
    """Have a JPEG of more pixels decoded at half, a quarter or an eighth of its sides.

    Its blocks are then transformed at that size, in as much less memory. A progressive one holds
    all coefficients, so that one is not.
    """
    pixels = image.width * image.height
    usual = image.format in ("JPEG", "MPO") and not image.info.get("progressive")
    if usual and max_pixels < pixels <= MOST_OF_A_JPEG:
        part = next((part for part in (2, 4) if pixels <= max_pixels * part**2), 8)
        image.draft(None, (image.width // part, image.height // part))


def check_pixels(image: Image.Image, max_pixels: int = MAX_PIXELS) -> None:
    """Raise `ImageError` for a picture of more pixels, before they are decoded."""
    if image.width * image.height > max_pixels:
        raise ImageError(
            f"image: {image.width} x {image.height} pixels exceed {max_pixels}; scale it down"
        )


def decode_picture(image: Image.Image, mode: Mode) -> Image.Image:
    """Decode all pixels, turn them upright, bring them to grey or RGB; raise `ImageError`."""
    try:
        image.load()
        upright = ImageOps.exif_transpose(image)
        shallow = _upper_byte(upright) if upright.mode in _DEEP_MODES else upright
        if shallow.mode == "F":
            raise ImageError(
                "image: floating-point pixels have no known range; save it with 8 or 16 bits"
            )
        return shallow.convert("L" if mode == "L" else "RGB")
    except _UNREAD_FAULTS as error:
        raise ImageError(
            f"image: the picture is damaged ({error}); replace the file or copy it again"
        ) from error


def _upper_byte(image: Image.Image) -> Image.Image:
    """Bring 16-bit grey to 8 bits; Pillow's own conversion would clip everything above 255."""
    deep = np.asarray(image)
    if deep.size and (deep.min() < 0 or deep.max() > 0xFFFF):
        raise ImageError(
            f"image: grey values from {deep.min()} to {deep.max()} exceed 16 bits; "
            "save it with 8 or 16 bits"
        )
    return Image.fromarray((deep >> 8).astype(np.uint8))


def _resize(image: Image.Image, spec: PreprocessingSpec) -> Image.Image:
    frame, resized = _resized(image, spec, _FILTERS.get(spec.interpolation))
    height, width = spec.size
    if spec.resize == "letterbox":
        level = PAD if spec.pad is None else spec.pad
        boxed = Image.new(resized.mode, (width, height), (level,) * len(resized.getbands()))
        boxed.paste(resized, (-frame.left, -frame.top))
        return boxed
    return resized.crop((frame.left, frame.top, frame.left + width, frame.top + height))


def _resized(
    image: Image.Image, spec: PreprocessingSpec, method: Image.Resampling | None
) -> tuple[Frame, Image.Image]:
    """Return the image before it is cropped to `size`, and its frame; None is OpenCV's way."""
    frame = frame_of(image.width, image.height, spec)
    if frame.wide * frame.high > MAX_PIXELS:
        height, width = spec.size
        raise ImageError(
            f"image: {image.width} x {image.height} pixels are too narrow to be cropped to "
            f"{width} x {height}; cut a part out of it"
        )
    if method is not None:
        return frame, image.resize((frame.wide, frame.high), method)
    pixels = np.asarray(image)
    sized = resize_bilinear(pixels.reshape(*pixels.shape[:2], -1), frame.high, frame.wide)
    return frame, Image.fromarray(sized if pixels.ndim == 3 else sized[:, :, 0])

"""Where a picture lies on a model's input, and what each of its pixels then gets of the output.

`learning.numerics.preprocessing` resizes a picture to `Frame.high` x `Frame.wide` and cuts the
model's size out of it. Answers for pixels go the way back: `classes_of_pixels` takes scores at the
model's size to the picture's own, linear between the centres of pixels as in
`learning.numerics.bilinear`, and only then decides, so that borders are as smooth as the picture's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

OUTSIDE = 255
"""Value of a mask where nothing is said."""
MAX_ROWS = 255
"""Rows that a mask of 8 bits has values for, beside `OUTSIDE`."""
_BAND_NUMBERS = 1 << 22
"""Scores at the picture's size that are in memory at a time: 16 MiB."""
Mode = Literal["L", "RGB", "BGR"]


class PreprocessingSpec(Protocol):
    """What it takes to know of pictures; `schemas.models.Preprocessing` fits, or a dataclass."""

    @property
    def mode(self) -> Mode:
        """Grey or colour, with the order of the channels."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the result in pixels."""

    @property
    def interpolation(self) -> str:
        """One of nearest, bilinear, bicubic, lanczos, opencv_bilinear."""

    @property
    def resize(self) -> Literal["stretch", "shorter_side_crop", "letterbox"]:
        """Stretch to `size`, crop centrally after `shorter_side`, or fit into `size` and pad."""

    @property
    def shorter_side(self) -> int | None:
        """Pixels of the shorter side before the crop; given with that rule."""

    @property
    def pad(self) -> int | None:
        """Level of a letterbox's borders; None for `PAD`."""

    @property
    def divide_by(self) -> int:
        """Divisor of the 8-bit values: 255 or 1."""

    @property
    def mean(self) -> tuple[float, ...]:
        """Subtracted after the division, per channel."""

    @property
    def deviation(self) -> tuple[float, ...]:
        """Divides the difference, per channel."""

    @property
    def layout(self) -> Literal["NCHW", "NHWC"]:
        """Order of the axes."""


@dataclass(frozen=True)
class Frame:
    """The size to which a picture is resized, and where the model's part of it begins."""

    wide: int
    high: int
    left: int = 0
    top: int = 0


def frame_of(width: int, height: int, spec: PreprocessingSpec) -> Frame:
    """Return where a picture of that size lies; torchvision's rounding where it is cropped.

    A letterbox begins outside the picture: `left` and `top` are 0 or less (`letterbox` of
    Ultralytics, `round(dw - 0.1)`).
    """
    high, wide = spec.size
    if spec.resize == "stretch":
        return Frame(wide, high)
    if spec.resize == "letterbox":
        by = min(high / height, wide / width)
        fitted = max(1, round(width * by)), max(1, round(height * by))
        left, top = (wide - fitted[0]) / 2, (high - fitted[1]) / 2
        return Frame(*fitted, -round(left - 0.1), -round(top - 0.1))
    assert spec.shorter_side is not None
    shorter = min(width, height)
    # The shorter side is `shorter_side` then, the other is rounded down.
    resized = width * spec.shorter_side // shorter, height * spec.shorter_side // shorter
    return Frame(*resized, round((resized[0] - wide) / 2), round((resized[1] - high) / 2))


def classes_of_pixels(
    scores: npt.NDArray[Any], frame: Frame, size: tuple[int, int]
) -> npt.NDArray[np.uint8]:
    """Return the row with the highest score of each pixel of a picture, uint8 (h, w) = `size`.

    `scores` are (C, H, W) at the model's size, C at most `MAX_ROWS`. Pixels that the crop left out
    are `OUTSIDE`. A band of the picture is computed at a time.
    """
    rows = _line(size[0], frame.high, frame.top, scores.shape[1])
    columns = _line(size[1], frame.wide, frame.left, scores.shape[2])
    classes = np.full(size, OUTSIDE, np.uint8)
    step = max(1, _BAND_NUMBERS // max(1, len(scores) * len(columns.pixels)))
    for start in range(0, len(rows.pixels), step):
        band = rows.part(slice(start, start + step))
        found = columns.between(band.between(scores, 1), 2)
        classes[np.ix_(band.pixels, columns.pixels)] = found.argmax(axis=0)
    return classes


@dataclass(frozen=True, eq=False)
class _Line:
    """Pixels along a picture that the model saw, each between two of the model's own."""

    pixels: npt.NDArray[np.intp]
    before: npt.NDArray[np.intp]
    behind: npt.NDArray[np.intp]
    share: npt.NDArray[np.float32]
    """Of the pixel behind."""

    def part(self, some: slice) -> _Line:
        return _Line(self.pixels[some], self.before[some], self.behind[some], self.share[some])

    def between(self, maps: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
        """Return maps (C, h, w) at these pixels along axis 1 or 2."""
        share = self.share[:, np.newaxis] if axis == 1 else self.share
        before, behind = np.take(maps, self.before, axis), np.take(maps, self.behind, axis)
        return np.asarray(before + (behind - before) * share)


def _line(length: int, resized: int, begin: int, side: int) -> _Line:
    """Return how `length` pixels lie on `side` ones that begin at `begin` of `resized`."""
    places = (np.arange(length) + 0.5) * resized / length - 0.5 - begin
    pixels = np.flatnonzero((places >= -0.5) & (places <= side - 0.5))
    clipped = np.clip(places[pixels], 0, side - 1)
    before = np.floor(clipped).astype(np.intp)
    behind = np.minimum(before + 1, side - 1)
    return _Line(pixels, before, behind, (clipped - before).astype(np.float32))

"""Windows of scenes: a picture and its mask, cut, scaled and mirrored together.

A scale s makes a picture of h x w pixels one of H = round(s h) by W = round(s w), in which a window
lies anywhere; where it is larger, the picture lies anywhere in the window. Pixel i of a window that
begins at row t (or before the picture: t < 0) shows the row y of the picture, in centres of pixels:

    y = (i + t + 1/2) h / H - 1/2

The mask has the label of the pixel whose square holds that point, the picture the mean of the four
pixels around it, weighted by nearness; scaled down, it is not smoothed. Columns likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.segmentation.pixels import IGNORED

_LEVELS = 1 << 16


@dataclass(frozen=True)
class SceneCrops:
    """What training sees of a scene: a window of `size` (height, width), None for the whole size.

    The scale is uniform between `least_scale` and `most_scale`; half of the windows are mirrored
    where `flip`. Outside the picture a window is black, and its labels are `IGNORED`. With its
    defaults a scene stays as it is. Raises `TrainingError` for sizes and scales that are none.
    """

    size: tuple[int, int] | None = None
    least_scale: float = 1.0
    most_scale: float = 1.0
    flip: bool = False

    def __post_init__(self) -> None:
        if self.size is not None and min(self.size) < 1:
            raise TrainingError(f"size: {self.size} is no window; give height and width in pixels")
        if not 0 < self.least_scale <= self.most_scale < float("inf"):
            raise TrainingError(
                f"least_scale: {self.least_scale} with a most_scale of {self.most_scale}; give "
                "0 < least_scale <= most_scale"
            )

    def __call__(self, raw: Tensor, masks: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return windows uint8 (n, c, *size) of `raw` (n, c, h, w) and (n, *size) of their masks.

        `words` (n,) int64 are chance: bits 0 to 15 choose the row, 16 to 31 the column, bit 32 the
        mirror, 33 to 48 the scale.
        """
        height, width = raw.shape[-2:]
        window = self.size or (height, width)
        scales = self._scales(words)
        rows = _Line.drawn(height, window[0], scales, words & 0xFFFF)
        columns = _Line.drawn(width, window[1], scales, words >> 16 & 0xFFFF)
        pictures, labels = self._pictures(raw, rows, columns), _labels(masks, rows, columns)
        inside = rows.inside[:, :, None] & columns.inside[:, None, :]
        pictures = torch.where(inside[:, None], pictures, 0)
        labels = torch.where(inside, labels, IGNORED)
        if self.flip:
            mirrored = (words >> 32 & 1).bool()[:, None, None]
            pictures = torch.where(mirrored[:, None], pictures.flip(-1), pictures)
            labels = torch.where(mirrored, labels.flip(-1), labels)
        return pictures, labels

    def _scales(self, words: Tensor) -> Tensor:
        share = (words >> 33 & 0xFFFF).to(torch.float64) / (_LEVELS - 1)
        return self.least_scale + (self.most_scale - self.least_scale) * share

    def _pictures(self, raw: Tensor, rows: _Line, columns: _Line) -> Tensor:
        if self.least_scale == self.most_scale == 1:  # every point is the centre of a pixel
            return _gathered(raw, rows.nearest, columns.nearest)
        upper, lower = (
            _between(
                _gathered(raw, row, columns.before),
                _gathered(raw, row, columns.after),
                columns.share[:, None, None, :],
            )
            for row in (rows.before, rows.after)
        )
        mixed = _between(upper, lower, rows.share[:, None, :, None])
        return mixed.round().to(torch.uint8)


@dataclass(frozen=True, eq=False)
class _Line:
    """Along one side, of which pixels of the picture each pixel of a window is made: (n, side)."""

    nearest: Tensor
    before: Tensor
    after: Tensor
    share: Tensor
    """Of the pixel after, from 0 to 1."""
    inside: Tensor

    @classmethod
    def drawn(cls, length: int, side: int, scales: Tensor, drawn: Tensor) -> _Line:
        """Return the line of windows in pictures of `length` pixels; 16 bits drawn say where.

        Whole numbers up to the share, so that a mask is the same on every machine.
        """
        scaled = (scales * length).round().to(torch.int64).clamp(min=1)
        free = scaled - side
        start = (drawn * (free.abs() + 1) >> 16) * free.sign()
        places = start[:, None] + torch.arange(side, device=drawn.device)
        scaled = scaled[:, None]
        middle = (2 * places + 1) * length  # of the pixel, in parts of 2 H to a pixel
        nearest = middle.div(2 * scaled, rounding_mode="floor")
        before = (middle - scaled).div(2 * scaled, rounding_mode="floor")
        share = (middle - scaled - before * 2 * scaled) / (2 * scaled)
        last = length - 1
        return cls(
            nearest.clamp(0, last),
            before.clamp(0, last),
            (before + 1).clamp(0, last),
            share.to(torch.float32),
            (nearest >= 0) & (nearest <= last),
        )


def check_scenes(pictures: Tensor, masks: Tensor) -> None:
    """Raise `TrainingError` unless these are uint8 (N, c, h, w) with masks uint8 (N, h, w)."""
    bytes_only = pictures.dtype == masks.dtype == torch.uint8
    if not bytes_only or pictures.dim() != 4 or masks.shape[1:] != pictures.shape[2:]:
        raise TrainingError(
            f"scenes: inputs {pictures.dtype} {tuple(pictures.shape)} with targets {masks.dtype} "
            f"{tuple(masks.shape)}; give uint8 pictures (N, c, h, w) and masks (N, h, w)"
        )


def _labels(masks: Tensor, rows: _Line, columns: _Line) -> Tensor:
    return _gathered(masks[:, None], rows.nearest, columns.nearest)[:, 0]


def _gathered(raw: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels (n, c, H, W) of `raw` (n, c, h, w) at rows (n, H) and columns (n, W)."""
    scene = torch.arange(len(raw), device=raw.device)[:, None, None]
    picked = raw.permute(0, 2, 3, 1)[scene, rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)


def _between(one: Tensor, other: Tensor, share: Tensor) -> Tensor:
    first = one.to(torch.float32)
    return first + (other.to(torch.float32) - first) * share

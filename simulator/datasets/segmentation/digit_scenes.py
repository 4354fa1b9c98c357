"""Scenes of several handwritten digits, made on the spot: no file, no download.

Every scene is a shaded, noisy canvas, dark with bright digits or bright with dark ones. Each digit
lies in a cell of its own, so that none covers another. A pixel with half the ink or more is of the
digit's class, one with a quarter or less is background; what lies between is 255, as borders are in
VOC.
Training scenes are drawn from other scans than test scenes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.simulator.datasets.digits import TEST_SHARE, split_digits
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, IGNORED

_SIDE = 8
"""Pixels of a scan's side."""
_DIGIT, _BACKGROUND = 0.5, 0.25
"""Least ink of a digit's pixel, most of a background's; 1 is all ink."""
_DARK, _BRIGHT = (20.0, 90.0), (165.0, 235.0)
"""Ranges of the three channels; canvas and ink are never of the same."""
_NOISE = 14
"""Most that noise adds to a channel or takes away, of 255; anything between is as likely."""
_TOGETHER = 512
"""Scenes that are coloured at a time, so that memory stays small."""

Floats = NDArray[np.float32]


class SceneSettings(Strict):
    """`[data.scenes]`: how many digit scenes, how large, and of how many digits."""

    train: int = Field(default=600, ge=1)
    """Scenes to learn from."""
    test: int = Field(default=200, ge=1)
    """Scenes to be asked about."""
    height: int = Field(default=48, ge=_SIDE, le=1024)
    """Pixels of a scene from top to bottom."""
    width: int = Field(default=48, ge=_SIDE, le=1024)
    """Pixels of a scene from left to right."""
    fewest: int = Field(default=1, ge=0)
    """Digits that a scene has at least."""
    most: int = Field(default=4, ge=1)
    """Digits that a scene has at most; every number between is as likely."""
    scales: tuple[int, ...] = Field(default=(2, 3), min_length=1)
    """Sides that digits may have, in multiples of 8 pixels."""

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of cells, each as large as the largest digit or larger."""
        side = _SIDE * max(self.scales)
        return self.height // side, self.width // side

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if min(self.scales) < 1:
            raise ValueError(f"scales: {min(self.scales)}; give 1 or more")
        if self.fewest > self.most:
            raise ValueError(f"fewest: {self.fewest} is more than most, {self.most}; give fewer")
        rows, columns = self.cells
        if rows * columns < self.most:
            raise ValueError(
                f"most: {count_of(self.most, 'digit')} of {_SIDE * max(self.scales)} pixels do not "
                f"fit into {self.height} x {self.width}, which has room for {rows * columns}; give "
                "fewer, smaller scales or a larger scene"
            )
        return self


@dataclass(frozen=True)
class Layout:
    """Where digits lie, for N scenes and up to M digits in each; all int64, (N, M)."""

    digit: NDArray[np.int64]
    """Index of a scan; -1 where a scene has fewer digits."""
    scale: NDArray[np.int64]
    top: NDArray[np.int64]
    left: NDArray[np.int64]


def split_digit_scenes(
    settings: SceneSettings, seed: int, test_share: float = TEST_SHARE
) -> Split[SegmentedImages]:
    """Return training and test scenes; the same settings and seed give the same scenes.

    A share of each class's scans is what only test scenes are drawn from.
    """
    digits = split_digits(seed, test_share)
    return Split(
        train=draw_scenes(digits.train, settings, settings.train, np.random.default_rng([seed, 0])),
        test=draw_scenes(digits.test, settings, settings.test, np.random.default_rng([seed, 1])),
    )


def draw_scenes(
    digits: LabelledImages, settings: SceneSettings, number: int, random: np.random.Generator
) -> SegmentedImages:
    """Return `number` scenes of these scans, 8x8 and grey."""
    layout = draw_layout(settings, number, len(digits), random)
    ink, masks = write(digits, layout, (settings.height, settings.width))
    return SegmentedImages(colour(ink, random), masks, digits.class_names)


def draw_layout(
    settings: SceneSettings, number: int, digits: int, random: np.random.Generator
) -> Layout:
    """Draw for every scene how many digits it has, which, how large and where."""
    rows, columns = settings.cells
    shape = (number, settings.most)
    numbers = random.integers(settings.fewest, settings.most + 1, (number, 1))
    cell = random.random((number, rows * columns)).argsort(axis=1)[:, : settings.most]
    scale = np.array(settings.scales, np.int64)[random.integers(0, len(settings.scales), shape)]
    height, width = settings.height // rows, settings.width // columns
    digit = random.integers(0, digits, shape)
    return Layout(
        digit=np.where(np.arange(settings.most) < numbers, digit, -1),
        scale=scale,
        top=cell // columns * height + random.integers(0, height - _SIDE * scale + 1),
        left=cell % columns * width + random.integers(0, width - _SIDE * scale + 1),
    )


def write(
    digits: LabelledImages, layout: Layout, size: tuple[int, int]
) -> tuple[Floats, NDArray[np.uint8]]:
    """Return the ink of every pixel, from 0 to 1, and the masks; both (N, *size)."""
    ink = np.zeros((len(layout.digit), *size), np.float32)
    masks = np.zeros(ink.shape, np.uint8)
    for scale in np.unique(layout.scale):
        scenes, places = np.nonzero((layout.scale == scale) & (layout.digit >= 0))
        drawn = layout.digit[scenes, places]
        glyphs = enlarge(digits.images[drawn], int(scale))
        values = (digits.labels[drawn] + 1).astype(np.uint8)[:, None, None]
        pixels = np.arange(_SIDE * scale)
        place = (
            scenes[:, None, None],
            layout.top[scenes, places, None, None] + pixels[:, None],
            layout.left[scenes, places, None, None] + pixels,
        )
        ink[place] = glyphs
        unsure = np.where(glyphs > _BACKGROUND, np.uint8(IGNORED), np.uint8(BACKGROUND))
        masks[place] = np.where(glyphs >= _DIGIT, values, unsure)
    return ink, masks


def enlarge(scans: NDArray[np.uint8], scale: int) -> Floats:
    """Return scans (N, 8, 8) of 0 to 255 as ink from 0 to 1, (N, 8 scale, 8 scale), bilinearly."""
    at = np.clip((np.arange(_SIDE * scale) + 0.5) / scale - 0.5, 0, _SIDE - 1)
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(_SIDE))).astype(np.float32)
    enlarged: Floats = weights @ (scans.astype(np.float32) / 255) @ weights.T
    return enlarged


def colour(ink: Floats, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return pictures, (N, h, w, 3), of ink (N, h, w) on canvases of two shaded colours."""
    number, *size = ink.shape
    pictures = np.empty((number, *size, 3), np.uint8)
    bright = random.random((number, 1, 1)) < 0.5
    colours = [
        np.where(bright ^ swapped, random.uniform(*_BRIGHT, shape), random.uniform(*_DARK, shape))
        for swapped, shape in ((False, (number, 3, 2)), (True, (number, 3, 1)))
    ]
    ends, inks = (part.astype(np.float32)[..., None] for part in colours)
    slope = np.add.outer(np.linspace(0, 0.5, size[0]), np.linspace(0, 0.5, size[1]))
    shade = slope.astype(np.float32)
    for start in range(0, number, _TOGETHER):
        part = slice(start, start + _TOGETHER)
        canvas = ends[part, :, :1] * (1 - shade) + ends[part, :, 1:] * shade
        canvas += ink[part, None] * (inks[part] - canvas)
        canvas += random.integers(-_NOISE, _NOISE, canvas.shape, np.int8, endpoint=True)
        pictures[part] = np.rint(np.clip(canvas, 0, 255)).transpose(0, 2, 3, 1)
    return pictures

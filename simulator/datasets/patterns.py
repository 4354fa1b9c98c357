"""Pictures of made-up patterns, of any size and number of classes: no file, no download.

Every class has a pattern of its own: 4x4 colours, drawn once for its number and enlarged bilinearly
to the whole picture. A picture is its class's pattern, lighter or darker as a whole, with noise on
every value. They stand in for a data set that is not at hand where a scenario is only tried out, so
they are easy to tell apart, and what is measured on them says nothing of any real data set.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fleetledger.learning.numerics.bilinear import resized
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split

_GRID = 4
"""Colours of a pattern along a side."""
_DARKEST, _BRIGHTEST = 60, 195
"""Of a pattern's values."""
_LIGHT, _NOISE = 30, 24
"""Most by which a picture is lighter or darker, and most that noise adds or takes away."""


class PatternSettings(Strict):
    """`[data.patterns]`: how many made-up pictures, and how large."""

    classes: int = Field(default=10, ge=2, le=1000)
    """Classes, each with a pattern of its own."""
    train: int = Field(default=50, ge=1, le=10_000)
    """Pictures of each class to learn from."""
    test: int = Field(default=10, ge=1, le=10_000)
    """Pictures of each class to be asked about."""
    height: int = Field(default=32, ge=8, le=1024)
    """Pixels of a picture from top to bottom."""
    width: int = Field(default=32, ge=8, le=1024)
    """Pixels of a picture from left to right."""
    channels: Literal[1, 3] = 3
    """1: grey. 3: red, green and blue."""
    owners: int = Field(default=0, ge=0, le=10_000)
    """Natural owners of the pictures, who take turns; 0: they have none."""


def split_patterns(settings: PatternSettings, seed: int) -> Split[LabelledImages]:
    """Return training and test pictures, class after class; a seed gives the same again.

    A class has the same pattern whatever the seed is.
    """
    return Split(
        train=_part(settings, settings.train, np.random.default_rng([seed, 0])),
        test=_part(settings, settings.test, np.random.default_rng([seed, 1])),
    )


def _part(settings: PatternSettings, each: int, random: np.random.Generator) -> LabelledImages:
    """Return so many pictures of each class."""
    labels = np.repeat(np.arange(settings.classes, dtype=np.int64), each)
    images = np.concatenate(
        [_pictures(_pattern(settings, label), each, random) for label in range(settings.classes)]
    )
    if settings.channels == 1:
        images = images[..., 0]
    names = tuple(ClassName(f"pattern {number}") for number in range(1, settings.classes + 1))
    owners = np.arange(len(labels), dtype=np.int64) % settings.owners if settings.owners else None
    return LabelledImages(images, labels, names, owners)


def _pattern(settings: PatternSettings, label: int) -> npt.NDArray[np.float64]:
    """Return the pattern of a class, (height, width, channels), values as in pictures."""
    grid = np.random.default_rng(label).uniform(
        _DARKEST, _BRIGHTEST, (settings.channels, _GRID, _GRID)
    )
    return np.moveaxis(resized(grid, (settings.height, settings.width)), 0, -1)


def _pictures(
    pattern: npt.NDArray[np.float64], number: int, random: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Return so many pictures of a pattern, (number, height, width, channels)."""
    pictures = np.empty((number, *pattern.shape), np.uint8)
    for picture in pictures:  # one at a time, so that memory stays small
        noise = random.integers(-_NOISE, _NOISE, pattern.shape, np.int8, endpoint=True)
        picture[:] = np.rint(np.clip(pattern + random.uniform(-_LIGHT, _LIGHT) + noise, 0, 255))
    return pictures

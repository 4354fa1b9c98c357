"""What every part of a segmentation data set offers, whether it lies in memory or in files.

The value of a class in a mask is its label plus one: `class_names[0]` is 1. The value 0 is
background, 255 is left out of training and of scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, TypeVar

from fleetledger.device_agent.sources.masks import BACKGROUND, IGNORED, check_values
from fleetledger.device_agent.sources.scenes import scene_digest
from fleetledger.learning.errors import ImageError
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.samples import pixel_digest
from fleetledger.simulator.errors import DatasetError

MOST_CLASSES = 254
"""Mask values are bytes, and two of them are taken."""


@dataclass(frozen=True)
class LabelledScene:
    """A picture, uint8 (3, h, w), RGB, and its mask, uint8 (h, w)."""

    picture: NDArray[np.uint8]
    mask: NDArray[np.uint8]


class SegmentedSamples(Protocol):
    """Pictures with masks in a fixed order."""

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes, background not among them."""

    @property
    def pixels(self) -> NDArray[np.int64]:
        """How many pixels of a mask are of a class, (N, C)."""

    @property
    def presence(self) -> NDArray[np.bool_]:
        """Whether any pixel of a picture is of a class, (N, C)."""

    @property
    def fingerprint(self) -> Digest:
        """Digest of pictures and masks (of files: names and sizes) and of class names."""

    def __len__(self) -> int:
        """Return the number of pictures."""

    def scene(self, index: int) -> LabelledScene:
        """Return one picture, uint8 (3, h, w), with its mask, uint8 (h, w)."""

    def mask(self, index: int) -> NDArray[np.uint8]:
        """Return one mask, uint8 (h, w)."""

    def take(self, indices: NDArray[np.int64]) -> Self:
        """Return the samples at `indices`, in that order."""


Part_co = TypeVar("Part_co", bound=SegmentedSamples, covariant=True, default=SegmentedSamples)


@dataclass(frozen=True)
class SegmentedSplit(Generic[Part_co]):
    """A data set in two parts that share no picture."""

    train: Part_co
    test: Part_co


def value_of(label: int) -> int:
    """Return the mask value of a label."""
    return label + 1


def value_names(class_names: tuple[ClassName, ...]) -> dict[int, ClassName]:
    """Return the class of every mask value but background and 255."""
    return {value_of(label): name for label, name in enumerate(class_names)}


def check_class_names(class_names: tuple[ClassName, ...]) -> None:
    """Raise `DatasetError` unless there are 1 to 254 different names."""
    if not 1 <= len(class_names) <= MOST_CLASSES or len(set(class_names)) != len(class_names):
        raise DatasetError(
            f"class_names: {len(class_names)}, of which {len(set(class_names))} differ; give 1 to "
            f"{MOST_CLASSES} different ones"
        )


def check_mask(mask: NDArray[np.uint8], classes: int, place: str) -> None:
    """Raise `DatasetError` naming `place` and value where a value is no class."""
    try:
        check_values(mask, range(1, classes + 1), f"classes are 1 to {classes}; mend the mask")
    except ImageError as error:
        raise DatasetError(f"{place}: {error}") from error


def count_pixels(mask: NDArray[np.uint8], classes: int) -> NDArray[np.int64]:
    """Return the number of pixels of each class, (C,)."""
    numbers = np.bincount(mask.ravel(), minlength=classes + 1).astype(np.int64)
    return numbers[1 : classes + 1]


def digest_of(scene: LabelledScene) -> Digest:
    """Return the digest of the pixels of a picture and of its mask."""
    height, width = scene.mask.shape
    picture = pixel_digest("RGB", (width, height), scene.picture.tobytes())
    return scene_digest(picture, pixel_digest("L", (width, height), scene.mask.tobytes()))


__all__ = [
    "BACKGROUND",
    "IGNORED",
    "SegmentedSamples",
    "SegmentedSplit",
    "check_class_names",
    "check_mask",
    "count_pixels",
    "digest_of",
    "value_names",
    "value_of",
]

"""Interface of every part of a segmentation data set, whether it lies in memory or in files.

The value of a class in a mask is its label plus one: `class_names[0]` is 1. The value 0 is
background, 255 is left out of training and of scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import Self

from fleetledger.device_agent.kinds import SCENES
from fleetledger.device_agent.samples.images import scene_digest
from fleetledger.device_agent.samples.sources import masks
from fleetledger.learning.errors import ImageError
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.samples import pixel_digest
from fleetledger.simulator.errors import DatasetError

BACKGROUND, IGNORED = masks.BACKGROUND, masks.IGNORED
MOST_CLASSES = 254
"""Mask values are bytes, and two of them are taken."""


class LabelledScene(NamedTuple):
    """A picture of mode RGB, and its mask, uint8 (h, w)."""

    picture: Image.Image
    mask: NDArray[np.uint8]


class SceneSet(ABC):
    """Pictures with masks in a fixed order; they fit `SampleSet`."""

    kind = SCENES
    class_names: tuple[ClassName, ...]
    """Names of all classes, background not among them."""
    owners: None = None
    """Nobody is known to own a scene."""

    @property
    @abstractmethod
    def labels(self) -> NDArray[np.int64]:
        """Pixels of each class in each mask, (N, C)."""

    @property
    @abstractmethod
    def fingerprint(self) -> Digest:
        """Digest of pictures and masks (of files: names and sizes) and of class names."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def picture(self, index: int) -> Image.Image:
        """Return one picture, of mode RGB."""

    @abstractmethod
    def mask(self, index: int) -> NDArray[np.uint8]:
        """Return one mask, uint8 (h, w)."""

    @abstractmethod
    def take(self, indices: NDArray[np.int64]) -> Self:
        """Return the samples at `indices`, in that order."""

    def scene(self, index: int) -> LabelledScene:
        """Return one picture with its mask."""
        return LabelledScene(self.picture(index), self.mask(index))

    def digest(self, index: int) -> Digest:
        """Return the digest of one picture and its mask."""
        return digest_of(self.scene(index))


def value_of(label: int) -> int:
    """Return the mask value of a label."""
    return label + 1


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
        masks.check_values(
            mask, range(1, classes + 1), f"classes are 1 to {classes}; mend the mask"
        )
    except ImageError as error:
        raise DatasetError(f"{place}: {error}") from error


def count_pixels(mask: NDArray[np.uint8], classes: int) -> NDArray[np.int64]:
    """Return the number of pixels of each class, (C,)."""
    numbers = np.bincount(mask.ravel(), minlength=classes + 1).astype(np.int64)
    return numbers[1 : classes + 1]


def digest_of(scene: LabelledScene) -> Digest:
    """Return the digest of the pixels of a picture and of its mask."""
    size, planes = scene.picture.size, np.asarray(scene.picture).transpose(2, 0, 1)
    picture = pixel_digest("RGB", size, planes.tobytes())
    return scene_digest(picture, pixel_digest("L", size, scene.mask.tobytes()))

"""Pictures with masks in memory, all of one size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.segmentation.samples import (
    SceneSet,
    check_class_names,
    check_mask,
    count_pixels,
)
from fleetledger.simulator.errors import DatasetError


@dataclass(frozen=True)
class SegmentedImages(SceneSet):
    """Pictures with a class for every pixel, all of one size.

    `images` is uint8, (N, h, w, 3), RGB; `masks` is uint8, (N, h, w), with 0 for background, the
    label plus one for classes, and 255 for what is left out. Raises `DatasetError` where these do
    not fit each other or the names.
    """

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    class_names: tuple[ClassName, ...]

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or shape[3] != 3:
            raise DatasetError(
                f"images: {self.images.dtype} of shape {shape}; give uint8 of shape "
                "(N, height, width, 3)"
            )
        if self.masks.dtype != np.uint8 or self.masks.shape != shape[:3]:
            raise DatasetError(
                f"masks: {self.masks.dtype} of shape {self.masks.shape} beside images of shape "
                f"{shape}; give uint8 of shape {shape[:3]}"
            )
        check_class_names(self.class_names)
        for index, mask in enumerate(self.masks):
            check_mask(mask, len(self.class_names), f"masks: number {index}")

    def __len__(self) -> int:
        return len(self.masks)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Pixels of each class in each mask, (N, C)."""
        classes = len(self.class_names)
        rows = [count_pixels(mask, classes) for mask in self.masks]
        return np.array(rows, np.int64).reshape(len(rows), classes)

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of pictures, masks and names, in their order."""
        scenes = "".join(self.digest(index) for index in range(len(self)))
        return Digest.of(("\n".join(self.class_names) + "\n\n" + scenes).encode())

    def picture(self, index: int) -> Image.Image:
        """Return one picture, of mode RGB."""
        return Image.fromarray(self.images[index])

    def mask(self, index: int) -> NDArray[np.uint8]:
        """Return one mask."""
        mask: NDArray[np.uint8] = self.masks[index]
        return mask

    def take(self, indices: NDArray[np.int64]) -> SegmentedImages:
        """Return the pictures at `indices`, in that order."""
        return SegmentedImages(self.images[indices], self.masks[indices], self.class_names)

"""Pictures with masks in memory, all of one size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.segmentation.samples import (
    LabelledScene,
    check_class_names,
    check_mask,
    count_pixels,
    digest_of,
)
from fleetledger.simulator.errors import DatasetError


@dataclass(frozen=True)
class SegmentedImages:
    """Pictures with a class for every pixel; they fit `SegmentedSamples`.

    `images` is uint8, (N, 3, h, w), RGB; `masks` is uint8, (N, h, w), with 0 for background, the
    label plus one for classes, and 255 for what is left out. Raises `DatasetError` where these do
    not fit each other or the names.
    """

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    class_names: tuple[ClassName, ...]

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or shape[1] != 3:
            raise DatasetError(
                f"images: {self.images.dtype} of shape {shape}; give uint8 of shape "
                "(N, 3, height, width)"
            )
        if self.masks.dtype != np.uint8 or self.masks.shape != (shape[0], *shape[2:]):
            raise DatasetError(
                f"masks: {self.masks.dtype} of shape {self.masks.shape} beside images of shape "
                f"{shape}; give uint8 of shape {(shape[0], *shape[2:])}"
            )
        check_class_names(self.class_names)
        for index, mask in enumerate(self.masks):
            check_mask(mask, len(self.class_names), f"masks: number {index}")

    def __len__(self) -> int:
        return len(self.masks)

    @cached_property
    def pixels(self) -> NDArray[np.int64]:
        """How many pixels of a mask are of a class, (N, C)."""
        classes = len(self.class_names)
        rows = [count_pixels(mask, classes) for mask in self.masks]
        return np.array(rows, np.int64).reshape(len(rows), classes)

    @property
    def presence(self) -> NDArray[np.bool_]:
        """Whether any pixel of a picture is of a class, (N, C)."""
        return self.pixels > 0

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of pictures, masks and names, in their order."""
        scenes = "".join(digest_of(self.scene(index)) for index in range(len(self)))
        return Digest.of(("\n".join(self.class_names) + "\n\n" + scenes).encode())

    def scene(self, index: int) -> LabelledScene:
        """Return one picture with its mask."""
        return LabelledScene(self.images[index], self.masks[index])

    def mask(self, index: int) -> NDArray[np.uint8]:
        """Return one mask."""
        mask: NDArray[np.uint8] = self.masks[index]
        return mask

    def take(self, indices: NDArray[np.int64]) -> SegmentedImages:
        """Return the pictures at `indices`, in that order."""
        return SegmentedImages(self.images[indices], self.masks[indices], self.class_names)

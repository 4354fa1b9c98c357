"""What every data set gives: labelled 8-bit images, split into a training and a test part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.values import ClassName
from simulator.errors import DatasetError


@dataclass(frozen=True)
class LabelledImages:
    """Images with one class each.

    `images` is uint8, (N, height, width) for grey or (N, height, width, 3) for RGB; `labels` is
    int64, (N,), and indexes `class_names`. Raises `DatasetError` where these do not fit.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[ClassName, ...]

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8 or self.images.ndim not in (3, 4):
            raise DatasetError(
                f"images: {self.images.dtype} of shape {self.images.shape}; "
                "give uint8 of shape (N, height, width) or (N, height, width, 3)"
            )
        if self.labels.shape != self.images.shape[:1]:
            raise DatasetError(
                f"labels: shape {self.labels.shape} beside {len(self.images)} images; "
                "give one label per image"
            )
        if self.labels.size and not 0 <= self.labels.min() <= self.labels.max() < self.classes:
            raise DatasetError(
                f"labels: {self.labels.min()} to {self.labels.max()}; "
                f"there are {self.classes} class names, so give 0 to {self.classes - 1}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """Number of classes that have a name, held by an image or not."""
        return len(self.class_names)

    def take(self, indices: NDArray[np.int64]) -> LabelledImages:
        """Return the images at `indices`, in that order."""
        return LabelledImages(self.images[indices], self.labels[indices], self.class_names)

    def of_classes(self, classes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the indices of the images of these classes, ascending."""
        return np.flatnonzero(np.isin(self.labels, classes)).astype(np.int64)

    def at_most(self, per_class: int) -> LabelledImages:
        """Return the first `per_class` images of every class, in the order of the data set."""
        first = [np.flatnonzero(self.labels == label)[:per_class] for label in range(self.classes)]
        return self.take(np.sort(np.concatenate(first)).astype(np.int64))

    def counts(self) -> dict[ClassName, int]:
        """Return the number of images per class name; classes without images are left out."""
        numbers = np.bincount(self.labels, minlength=self.classes)
        return {name: int(n) for name, n in zip(self.class_names, numbers, strict=True) if n}


@dataclass(frozen=True)
class Split:
    """A data set in two parts that share no image."""

    train: LabelledImages
    test: LabelledImages

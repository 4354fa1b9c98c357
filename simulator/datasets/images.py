"""Labelled 8-bit images in memory, and a data set's split into a training and a test part."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import TypeVar

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.labels import first_of_every_class
from fleetledger.simulator.datasets.samples import (
    Domains,
    SampleSet,
    check_labels,
    pixel_digest,
    set_fingerprint,
)
from fleetledger.simulator.errors import DatasetError


@dataclass(frozen=True)
class LabelledImages:
    """Images with one class each; they fit `SampleSet`.

    `images` is uint8, (N, height, width) for grey or (N, height, width, 3) for RGB; `labels` is
    int64, (N,), and indexes `class_names`; `owners`, where there are some, is int64, (N,). Raises
    `DatasetError` where these do not fit.
    """

    kind = PICTURES
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    owners: NDArray[np.int64] | None = None
    domains: Domains | None = None

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or not (len(shape) == 3 or shape[3:] == (3,)):
            raise DatasetError(
                f"images: {self.images.dtype} of shape {shape}; "
                "give uint8 of shape (N, height, width) or (N, height, width, 3)"
            )
        if self.labels.shape != shape[:1]:
            raise DatasetError(
                f"labels: shape {self.labels.shape} beside {count_of(len(self.images), 'image')}; "
                "give one label per image"
            )
        check_labels(self.labels, self.class_names, self.owners)
        if self.domains is not None and self.domains.of_sample.shape != shape[:1]:
            raise DatasetError(
                f"domains: shape {self.domains.of_sample.shape} beside "
                f"{count_of(len(self.images), 'image')}; give one domain per image"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """Number of classes that have a name, held by an image or not."""
        return len(self.class_names)

    def picture(self, index: int) -> Image.Image:
        """Return one picture, of mode L or RGB."""
        return Image.fromarray(self.images[index])

    def digest(self, index: int) -> Digest:
        """Return the digest of one picture."""
        pixels = self.images[index]
        height, width = pixels.shape[:2]
        return pixel_digest("L" if pixels.ndim == 2 else "RGB", (width, height), pixels.tobytes())

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of pictures, labels, owners and names, in their order."""
        shape = str(self.images.shape).encode()
        return set_fingerprint(
            self, itertools.chain([shape], (image.tobytes() for image in self.images))
        )

    def take(self, indices: NDArray[np.int64]) -> LabelledImages:
        """Return the images at `indices`, in that order."""
        owners = None if self.owners is None else self.owners[indices]
        domains = None if self.domains is None else self.domains.take(indices)
        images, labels = self.images[indices], self.labels[indices]
        return LabelledImages(images, labels, self.class_names, owners, domains)

    def of_classes(self, classes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the indices of the images of these classes, ascending."""
        return np.flatnonzero(np.isin(self.labels, classes)).astype(np.int64)

    def at_most(self, per_class: int) -> LabelledImages:
        """Return the first `per_class` images of every class, in the order of the data set."""
        return self.take(first_of_every_class(self.labels, per_class))

    def counts(self) -> dict[ClassName, int]:
        """Return the number of images per class name; classes without images are left out."""
        numbers = np.bincount(self.labels, minlength=self.classes)
        return {name: int(n) for name, n in zip(self.class_names, numbers, strict=True) if n}


Part_co = TypeVar("Part_co", bound=SampleSet, covariant=True, default=SampleSet)


@dataclass(frozen=True)
class Split(Generic[Part_co]):
    """A data set in two parts that share no sample: to learn from, and to be asked about."""

    train: Part_co
    test: Part_co

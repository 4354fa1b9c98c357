"""Labelled 8-bit images in memory, and a data set's split into a training and a test part."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal

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

    @staticmethod
    def of(  # noqa: PLR0913 - the face of a data set
        x: Any = None,  # noqa: ANN401 - arrays of any library
        y: Any = None,  # noqa: ANN401
        *,
        train: Any = None,  # noqa: ANN401
        test: Any = None,  # noqa: ANN401
        owners: Any = None,  # noqa: ANN401
        domains: Any = None,  # noqa: ANN401
        class_names: Sequence[str] | None = None,
        test_share: float = 0.2,
        seed: int = 0,
        kind: Literal["pictures", "array", "text"] | None = None,
    ) -> Split[SampleSet]:
        """Return a data set of samples `x` with classes `y`, or of `train` and `test`.

        `x` is an array (N, ...) of NumPy or torch, a list of texts or of Pillow's pictures, a
        DataFrame, a data set of torch or of Hugging Face; `y` has a class per sample, a name or a
        number, or is the name of a column. `train` and `test` are each (x, y), or such a data set;
        otherwise `test_share` of every class becomes the test part, drawn by `seed`.

        `owners` and `domains` have a name or a number per sample; of two parts they are a pair.
        uint8 of shape (N, height, width) or (N, height, width, 3) are pictures unless `kind` says
        "array"; all other numbers are arrays of float32. Raises `DatasetError`.
        """
        from fleetledger.simulator.datasets.given import GivenSamples, split_of_given  # noqa: PLC0415 - knows Split

        given = GivenSamples(owners, domains, class_names, kind)
        whole = None if x is None else (x if y is None else (x, y))
        return split_of_given(given, whole, (train, test), (test_share, seed))

    @staticmethod
    def folder(
        path: str | os.PathLike[str],
        *,
        test_share: float = 0.2,
        seed: int = 0,
        shape: Sequence[int] | None = None,
    ) -> Split[SampleSet]:
        """Return a data set of files in folders named after their classes.

        The files are pictures, `.txt`, or `.npy`, `.npz` and `.parquet`, of which one may hold many
        samples of `shape`. Below `train` and `test` (or `val`) they are two parts; else
        `test_share` of every class becomes the test part, drawn by `seed`. A `.csv` or `.jsonl`
        file has texts with columns `text` and `label`. Raises `DatasetError`.
        """
        from fleetledger.simulator.datasets.sample_folder import load_folder  # noqa: PLC0415 - knows Split

        wanted = None if shape is None else tuple(shape)
        return load_folder(Path(path).expanduser(), test_share, seed, wanted)

"""Interface of every part of a data set, whether its samples lie in memory or in files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import Self

from fleetledger.device_agent.kinds import SampleKind
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.errors import DatasetError

Content = Image.Image | bytes
"""What preprocessing takes: a picture that is open, or the content of a file of text or numbers."""


@dataclass(frozen=True)
class Domains:
    """Which domain each sample is of, such as the style in which it was drawn."""

    names: tuple[str, ...]
    of_sample: NDArray[np.int64]
    """(N,); indexes the names."""

    def take(self, indices: NDArray[np.int64]) -> Domains:
        """Return those of the samples at `indices`."""
        return Domains(self.names, self.of_sample[indices])


def domains_of(samples: SampleSet) -> Domains | None:
    """Return the domains of samples; None where the data set does not say."""
    found: Domains | None = getattr(samples, "domains", None)
    return found


class SampleSet(Protocol):
    """Labelled pictures or texts in a fixed order; `labels` index `class_names`.

    Pictures are opened when they are asked for, so a part may be larger than the memory.
    """

    @property
    def kind(self) -> SampleKind:
        """Kind of the files that they are on devices."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Classes, (N,), or what is shown of every class, (N, C); see `datasets.labels`."""

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes, held by a sample or not."""

    @property
    def owners(self) -> NDArray[np.int64] | None:
        """Natural owner of each sample, (N,), such as its drawer; None where there is none."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def picture(self, index: int) -> Content:
        """Return one picture, of mode L or RGB, or one text."""

    def digest(self, index: int) -> Digest:
        """Return `picture_digest` of one picture, or the digest of one text's bytes."""

    @property
    def fingerprint(self) -> Digest:
        """Digest of samples (of files: names and sizes), labels, owners and class names."""

    def take(self, indices: NDArray[np.int64]) -> Self:
        """Return the samples at `indices`, in that order."""


def picture_digest(picture: Image.Image) -> Digest:
    """Return the digest of mode, size and pixels."""
    return pixel_digest(picture.mode, picture.size, picture.tobytes())


def pixel_digest(mode: str, size: tuple[int, int], pixels: bytes) -> Digest:
    """Return the digest of a picture of `size` (width, height), pixels row by row."""
    header = f"{mode} {size[0]} {size[1]} ".encode()
    return Digest.of(header + pixels)


def set_fingerprint(samples: SampleSet, pictures: Iterable[bytes]) -> Digest:
    """Return the fingerprint of samples; `pictures` tells their pictures apart, in order."""
    owners = b"" if samples.owners is None else np.asarray(samples.owners, "<i8").tobytes()
    parts = (
        "\n".join(samples.class_names).encode(),
        np.asarray(samples.labels, "<i8").tobytes(),
        owners,
    )
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    for picture in pictures:
        whole.update(picture)
    return Digest(whole.hexdigest())


def check_labels(
    labels: NDArray[np.int64], class_names: tuple[ClassName, ...], owners: NDArray[np.int64] | None
) -> None:
    """Raise `DatasetError` unless every label has a name and there is one owner per label."""
    classes = len(class_names)
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise DatasetError(
            f"labels: {labels.min()} to {labels.max()}; there are "
            f"{count_of(classes, 'class name')}, so give 0 to {classes - 1}"
        )
    if owners is not None and owners.shape != labels.shape:
        raise DatasetError(
            f"owners: shape {owners.shape} beside {count_of(len(labels), 'label')}; give one owner "
            "per image"
        )

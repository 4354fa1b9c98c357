"""Labelled picture files: a data set of any size, of which only names are in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.file_digests import FileDigests
from fleetledger.simulator.datasets.pictures import read_picture, size_of
from fleetledger.simulator.datasets.samples import check_labels, set_fingerprint
from fleetledger.simulator.errors import DatasetError

_LEARNED_TOGETHER = 1024
"""Files that are decoded when the digest of one of them is asked for."""


@dataclass(frozen=True)
class ImageFiles:
    """Picture files below `root`, with one class each; they fit `Samples`.

    `paths` are relative to `root`; `labels`, `class_names` and `owners` are those of
    `LabelledImages`. Files are opened when they are asked for.
    """

    kind = PICTURES
    root: Path
    paths: tuple[str, ...] = field(repr=False)
    labels: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    digests: FileDigests = field(repr=False)
    """Of the files below `root`, shared by all parts of a data set."""
    owners: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.paths),):
            raise DatasetError(
                f"labels: shape {self.labels.shape} beside {count_of(len(self.paths), 'file')}; "
                "give one label per file"
            )
        check_labels(self.labels, self.class_names, self.owners)

    def __len__(self) -> int:
        return len(self.labels)

    def picture(self, index: int) -> Image.Image:
        """Return one picture, of mode L or RGB; raise `DatasetError` if it cannot be read."""
        return read_picture(self.root / self.paths[index])

    def digest(self, index: int) -> Digest:
        """Return the digest of one picture; those of its neighbours are found out with it."""
        path = self.paths[index]
        if path not in self.digests:
            start = index - index % _LEARNED_TOGETHER
            self.digests.learn(self.paths[start : start + _LEARNED_TOGETHER])
        return self.digests[path]

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of names and sizes of the files, labels, owners and names, in their order.

        Nothing is decoded, so it is quick. Raises `DatasetError` for a file that is gone.
        """
        return set_fingerprint(
            self, (f"{path} {size_of(self.root / path)}\n".encode() for path in self.paths)
        )

    def take(self, indices: NDArray[np.int64]) -> ImageFiles:
        """Return the files at `indices`, in that order."""
        return ImageFiles(
            self.root,
            tuple(self.paths[index] for index in indices),
            self.labels[indices],
            self.class_names,
            self.digests,
            None if self.owners is None else self.owners[indices],
        )

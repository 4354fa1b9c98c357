"""Windows of texts as samples: so many characters, and the one that follows as their class."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.kinds import TEXT
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.samples import check_labels, set_fingerprint
from fleetledger.simulator.errors import DatasetError


@dataclass(frozen=True)
class Corpus:
    """What windows are cut from, and what may be learned from before the fleet starts."""

    texts: tuple[str, ...] = field(repr=False)
    """Of every natural owner."""
    public: tuple[str, ...] = field(repr=False)
    """Of speakers that are no owner of anything."""
    length: int
    """Characters of a window."""


@dataclass(frozen=True)
class TextWindows:
    """Windows of a corpus with one class each; they fit `Samples`.

    Window i is the `corpus.length` characters of its owner's text before the position `ends[i]`.
    `ends`, `labels` and `owners` are int64, (N,); labels index `class_names`, owners
    `corpus.texts`. Raises `DatasetError` where these do not fit.
    """

    kind = TEXT
    corpus: Corpus
    ends: NDArray[np.int64]
    labels: NDArray[np.int64]
    class_names: tuple[ClassName, ...]
    owners: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.ends.shape != self.labels.shape:
            raise DatasetError(
                f"labels: shape {self.labels.shape} beside {count_of(len(self.ends), 'window')}; "
                "give one label per window"
            )
        check_labels(self.labels, self.class_names, self.owners)

    def __len__(self) -> int:
        return len(self.labels)

    def text(self, index: int) -> str:
        """Return one window."""
        end = int(self.ends[index])
        return self.corpus.texts[int(self.owners[index])][end - self.corpus.length : end]

    def picture(self, index: int) -> bytes:
        """Return the content of one window's file."""
        return self.text(index).encode("utf-8")

    def digest(self, index: int) -> Digest:
        """Return the digest of one window's file."""
        return Digest.of(self.picture(index))

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of windows, labels, owners and names, in their order."""
        return set_fingerprint(self, (self.picture(index) for index in range(len(self))))

    def take(self, indices: NDArray[np.int64]) -> TextWindows:
        """Return the windows at `indices`, in that order."""
        return TextWindows(
            self.corpus,
            self.ends[indices],
            self.labels[indices],
            self.class_names,
            self.owners[indices],
        )

"""Labelled arrays and texts in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from fleetledger.device_agent.kinds import ARRAY, TEXT, SampleKind
from fleetledger.learning.numerics.arrays import array_content
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.samples import Domains, check_labels, set_fingerprint
from fleetledger.simulator.errors import DatasetError


@dataclass(frozen=True)
class _Labelled:
    """Samples with one class each; subclasses hold them in their last field."""

    kind: ClassVar[SampleKind]
    labels: NDArray[np.int64]
    """(N,); indexes `class_names`."""
    class_names: tuple[ClassName, ...]
    owners: NDArray[np.int64] | None = field(default=None, kw_only=True)
    """(N,)"""
    domains: Domains | None = field(default=None, kw_only=True)

    def _check(self, samples: int) -> None:
        """Raise `DatasetError` unless there is one label, owner and domain per sample."""
        if self.labels.shape != (samples,):
            raise DatasetError(
                f"labels: shape {self.labels.shape} beside {count_of(samples, 'sample')}; give "
                "one label per sample"
            )
        check_labels(self.labels, self.class_names, self.owners)
        if self.domains is not None and self.domains.of_sample.shape != (samples,):
            raise DatasetError(
                f"domains: shape {self.domains.of_sample.shape} beside "
                f"{count_of(samples, 'sample')}; give one domain per sample"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def picture(self, index: int) -> bytes:
        """Return the content of one sample's file."""
        raise NotImplementedError

    def digest(self, index: int) -> Digest:
        """Return the digest of one sample's file."""
        return Digest.of(self.picture(index))

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of samples, labels, owners and names, in their order."""
        return set_fingerprint(self, (self.picture(index) for index in range(len(self))))

    def take(self, indices: NDArray[np.int64]) -> Self:
        """Return the samples at `indices`, in that order."""
        raise NotImplementedError


@dataclass(frozen=True)
class LabelledArrays(_Labelled):
    """Arrays with one class each; they fit `SampleSet`.

    Raises `DatasetError` where shapes do not fit, and for NaN and infinity.
    """

    kind = ARRAY
    arrays: NDArray[np.float32] = field(repr=False)
    """(N, ...)"""

    def __post_init__(self) -> None:
        if self.arrays.dtype != np.float32 or self.arrays.ndim < 2:
            raise DatasetError(
                f"arrays: {self.arrays.dtype} of shape {self.arrays.shape}; give float32 of shape "
                "(N, ...), samples first"
            )
        wrong = np.flatnonzero(~np.isfinite(self.arrays).reshape(len(self.arrays), -1).all(axis=1))
        if len(wrong):
            raise DatasetError(
                f"arrays: NaN or infinity in {count_of(len(wrong), 'sample')}, such as number "
                f"{wrong[0]}; leave them out, or fill the gaps"
            )
        self._check(len(self.arrays))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.arrays.shape[1:]

    def picture(self, index: int) -> bytes:
        """Return the content of one array's file."""
        return array_content(self.arrays[index])

    def take(self, indices: NDArray[np.int64]) -> LabelledArrays:
        """Return the arrays at `indices`, in that order."""
        return LabelledArrays(
            self.labels[indices],
            self.class_names,
            self.arrays[indices],
            owners=None if self.owners is None else self.owners[indices],
            domains=None if self.domains is None else self.domains.take(indices),
        )


@dataclass(frozen=True)
class LabelledTexts(_Labelled):
    """Texts with one class each; they fit `SampleSet`. Raises `DatasetError` for an empty one."""

    kind = TEXT
    texts: tuple[str, ...] = field(repr=False)

    def __post_init__(self) -> None:
        for index, text in enumerate(self.texts):
            size = len(text.encode("utf-8", "surrogatepass"))
            if not 0 < size <= TEXT.most_bytes:
                raise DatasetError(
                    f"texts: number {index} has {count_of(size, 'byte')}; give 1 to "
                    f"{TEXT.most_bytes}"
                )
        self._check(len(self.texts))

    def picture(self, index: int) -> bytes:
        """Return the content of one text's file."""
        return self.texts[index].encode("utf-8")

    def take(self, indices: NDArray[np.int64]) -> LabelledTexts:
        """Return the texts at `indices`, in that order."""
        return LabelledTexts(
            self.labels[indices],
            self.class_names,
            tuple(self.texts[index] for index in indices),
            owners=None if self.owners is None else self.owners[indices],
            domains=None if self.domains is None else self.domains.take(indices),
        )

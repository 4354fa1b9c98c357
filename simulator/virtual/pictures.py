"""Training samples as a network takes them, as a device reads them from its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.preprocessing import network_input, network_inputs
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import DatasetError

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]
"""Samples: uint8 of pictures, float32 of arrays."""
KEPT_BYTES = 2 << 30
"""Sets whose pictures take more are read again each time."""


class SizedRows:
    """Arrays (n, ...) of some of `number` samples; kept in memory where all are small."""

    def __init__(self, number: int, nothing: Rows, read: Callable[[int], Rows]) -> None:
        """Take what reads the array of one sample, which may raise `DatasetError`.

        `nothing` is the array of no samples, (0, ...), of the type of all.
        """
        self._read = read
        self._nothing = nothing
        self._kept: Rows | None = None
        self._is_kept = np.zeros(number, np.bool_)
        shape = nothing.shape[1:]
        if number * int(np.prod(shape)) * nothing.itemsize <= KEPT_BYTES:
            self._kept = np.empty((number, *shape), nothing.dtype)

    def __call__(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Rows:
        """Return the arrays of the samples at `indices`; raise `DatasetError`."""
        if self._kept is None:
            rows = [self._read(int(index)) for index in indices]
            return np.stack(rows) if rows else self._nothing
        places = np.asarray(indices, np.int64)
        for index in np.unique(places[~self._is_kept[places]]):
            self._kept[index] = self._read(int(index))
            self._is_kept[index] = True
        chosen: Rows = self._kept[places]
        return chosen


class SizedPictures:
    """Pictures of some samples, uint8 (n, c, h, w), or arrays, float32 (n, ...)."""

    def __init__(
        self, samples: SampleSet, preprocessing: Preprocessing | ArrayPreprocessing
    ) -> None:
        self._samples = samples
        self._spec = preprocessing
        self._rows = SizedRows(len(samples), network_inputs(0, preprocessing), self._read)

    def __call__(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Rows:
        """Return the samples at `indices`; raise `DatasetError` for one that cannot be used."""
        return self._rows(indices)

    def _read(self, index: int) -> Rows:
        try:
            return network_input(self._samples.picture(index), self._spec)
        except SampleError as error:
            noun = self._samples.kind.noun
            raise DatasetError(f"data: {noun} {index} cannot be used: {error}") from error

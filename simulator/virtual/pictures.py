"""Training pictures at the size of a network, as a device reads them from its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import sized_pixels
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import DatasetError

Pixels = npt.NDArray[np.uint8]
KEPT_BYTES = 2 << 30
"""Sets whose pictures take more are read again each time."""


class SizedRows:
    """Arrays uint8 (n, *shape) of some of `number` samples; kept in memory where all are small."""

    def __init__(self, number: int, shape: tuple[int, ...], read: Callable[[int], Pixels]) -> None:
        """Take what reads the array of one sample; it may raise `DatasetError`."""
        self._read = read
        self._shape = shape
        self._kept: Pixels | None = None
        self._is_kept = np.zeros(number, np.bool_)
        if number * int(np.prod(shape)) <= KEPT_BYTES:
            self._kept = np.empty((number, *shape), np.uint8)

    def __call__(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Pixels:
        """Return the arrays of the samples at `indices`; raise `DatasetError`."""
        if self._kept is None:
            rows = [self._read(int(index)) for index in indices]
            return np.stack(rows) if rows else np.empty((0, *self._shape), np.uint8)
        places = np.asarray(indices, np.int64)
        for index in np.unique(places[~self._is_kept[places]]):
            self._kept[index] = self._read(int(index))
            self._is_kept[index] = True
        chosen: Pixels = self._kept[places]
        return chosen


class SizedPictures:
    """Pictures of some samples, uint8 (n, c, h, w)."""

    def __init__(self, samples: SampleSet, preprocessing: Preprocessing) -> None:
        self._samples = samples
        self._spec = preprocessing
        shape = (preprocessing.channels, *preprocessing.size)
        self._rows = SizedRows(len(samples), shape, self._read)

    def __call__(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Pixels:
        """Return the pictures at `indices`; raise `DatasetError` for one that cannot be used."""
        return self._rows(indices)

    def _read(self, index: int) -> Pixels:
        try:
            pixels = sized_pixels(self._samples.picture(index), self._spec)
        except ImageError as error:
            raise DatasetError(f"data: a picture cannot be used: {error}") from error
        channels_first: Pixels = pixels.transpose(2, 0, 1)
        return channels_first

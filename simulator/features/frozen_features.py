"""Features h for the samples of a split, by either of two ways to the same numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.features.extracted import ExtractedRows
from fleetledger.simulator.features.interface import Floats, Indices
from fleetledger.simulator.features.projection import FeatureProjection


class ProjectedFeatures:
    """h from the backbone's features f, in NumPy, for the rows that are asked for.

    A model is asked about the test samples after every stage, so their h is kept in memory where a
    number is a byte: for 10,000 samples and M = 5000 that is 50 MB, and a tenth of the time.
    """

    def __init__(
        self, rows: ExtractedRows, projection: FeatureProjection, seconds_per_image: float
    ) -> None:
        self.seconds_per_image = seconds_per_image
        """Seconds of one core from pixels to h."""
        self._rows = rows
        self._projection = projection
        self._is_kept = np.zeros(len(rows.test_places), np.bool_)
        self._kept: NDArray[np.uint8] | None = None

    def train(self, indices: Indices) -> Floats:
        """Return h (n, M) of training samples."""
        return self._projection(self._rows.train(indices))

    def test(self, indices: Indices) -> Floats:
        """Return h (n, M) of test samples."""
        if not self._projection.in_bytes:
            return self._projection(self._rows.test(indices))
        return self._keep(indices)[indices].astype(np.float32)

    def _keep(self, indices: Indices) -> NDArray[np.uint8]:
        """Return an array that holds h of test samples at their indices."""
        new = np.unique(indices[~self._is_kept[indices]])
        compact = self._projection.compact(self._rows.test(new))
        if self._kept is None:
            self._kept = np.empty((len(self._is_kept), compact.shape[1]), np.uint8)
        self._kept[new] = compact
        self._is_kept[new] = True
        return self._kept


class WholeFeatures:
    """h as `frozen.onnx` itself gave it, for a model whose parts give other numbers."""

    def __init__(self, rows: ExtractedRows) -> None:
        self.seconds_per_image = rows.store.seconds_per_row
        """Seconds of one core from pixels to h."""
        self._rows = rows

    def train(self, indices: Indices) -> Floats:
        """Return h (n, M) of training samples."""
        return self._rows.train(indices)

    def test(self, indices: Indices) -> Floats:
        """Return h (n, M) of test samples."""
        return self._rows.test(indices)

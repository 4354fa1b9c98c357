"""Features h for the samples of a split, by either of two ways to the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.graph import BATCH
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.integer_features import IntegerProjection, quantise_features
from fleetledger.simulator.features.extracted import ExtractedRows
from fleetledger.simulator.features.extraction import AGENT_BATCH
from fleetledger.simulator.features.interface import Floats, FrozenModel, Indices


class FeatureProjection:
    """The tail of one frozen model; `export.frozen` writes the same in ONNX."""

    def __init__(self, model: FrozenModel) -> None:
        self._integer, self._gaussian = None, None
        self._quantises = model.kind == "none"
        if model.kind == "integer" and model.matrix is not None:
            self._integer = IntegerProjection(model.matrix, model.feature_bits)
        if model.kind == "gaussian" and model.matrix is not None:
            self._gaussian = GaussianProjection(model.matrix)
        self.in_bytes = self._integer is not None
        """Whether `compact` gives unsigned bytes."""

    def __call__(self, features: Floats) -> Floats:
        """Return h (n, M), float32, of f (n, d)."""
        return self.compact(features).astype(np.float32, copy=False)

    def compact(self, features: Floats) -> NDArray[Any]:
        """Return h (n, M) in the smallest type that holds it."""
        if self._integer is not None:
            return self._integer(quantise_features(features))
        if self._gaussian is not None:
            return self._gaussian(features)
        return quantise_features(features) if self._quantises else features


class GaussianProjection:
    """relu(f R) in float32, every sum in the order in which an agent adds it."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        """Make the map R (d, M) ready."""
        width, columns = matrix.shape
        builder = GraphBuilder()
        product = builder.add("MatMul", "f", builder.constant("matrix", matrix, np.float32))
        builder.add("Relu", product, output="h")
        self._columns = columns
        self._model = LoadedModel(
            builder.model([float_value("f", BATCH, width)], [float_value("h", BATCH, columns)])
        )

    def __call__(self, features: Floats) -> Floats:
        """Return h (n, M) of f (n, d)."""
        h = np.empty((len(features), self._columns), np.float32)
        for first in range(0, len(features), AGENT_BATCH):
            batch = slice(first, first + AGENT_BATCH)
            h[batch] = self._model.run({"f": features[batch]})["h"]
        return h


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

"""From features f of the backbone to h of a frozen model, as `frozen.onnx` computes it.

Integers are exact in any order, so NumPy computes them. The Gaussian map adds floats, and their sum
depends on the order: ONNX Runtime computes it, a few rows at a time like an agent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.graph import BATCH
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.integer_features import IntegerProjection, quantise_features
from fleetledger.simulator.features.extraction import AGENT_BATCH
from fleetledger.simulator.features.interface import Floats, FrozenModel


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

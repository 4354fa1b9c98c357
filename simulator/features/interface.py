"""What engines ask of whoever computes features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fleetledger.export.frozen import MapKind

Indices = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FrozenModel:
    """A frozen model, whole and in its parts."""

    data: bytes
    """`frozen.onnx`: preprocessed images in, features h out."""
    kind: MapKind | Literal["backbone"]
    """What follows the backbone; `backbone`: nothing, h are its features f as they are."""
    matrix: NDArray[Any] | None
    """R (d x M), as `export.frozen.build_frozen` takes it."""
    feature_bits: int


def own_features(data: bytes) -> FrozenModel:
    """Return the frozen model of a network that is trained on a backbone's own features."""
    return FrozenModel(data, "backbone", None, 0)


class FrozenFeatures(Protocol):
    """Features h of one frozen model for the samples of a split; float32, a row per index."""

    @property
    def seconds_per_image(self) -> float:
        """Seconds that one image took on this machine, from pixels to h."""

    def train(self, indices: Indices) -> Floats:
        """Return h (n, M) of training samples: the numbers that `frozen.onnx` gives."""

    def test(self, indices: Indices) -> Floats:
        """Return h (n, M) of test samples."""


class FeatureBank(Protocol):
    """Knows the backbone's features of every sample of a split."""

    def frozen(self, model: FrozenModel) -> FrozenFeatures:
        """Return the features of a frozen model that begins with the bank's backbone."""

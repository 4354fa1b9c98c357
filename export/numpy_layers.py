"""Layers of networks on features by their formulas, in float64 with NumPy.

An export compares what ONNX Runtime computes with what is computed here: the same description of a
network, carried out without ONNX and without torch. Everything is as in use: dropout does nothing,
normalisation follows the running statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.module_source import ModuleSource

Floats = npt.NDArray[np.float64]

_VARIANCE_EPSILON = 1e-5
"""Added to variances, as `learning.networks.torch_layers` does; its import would need torch."""


class NumpyLayers:
    """Those `learning.networks.body.Layers` that rows of features (n, d) can pass.

    Pictures and tokens have no layers here.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays = arrays

    def rows(self, values: Floats, axes: int) -> Floats:
        """Return each sample's values as one row."""
        return values.reshape(*values.shape[: values.ndim - axes], -1)

    def linear(self, name: str, values: Floats) -> Floats:
        """Return x W^T + b."""
        products = np.asarray(values @ self._tensor(f"{name}.weight").T)
        return products + self._tensor(f"{name}.bias") if self._has(f"{name}.bias") else products

    def project(self, values: Floats, matrix: npt.NDArray[np.float32]) -> Floats:
        """Return M x."""
        return np.asarray(values @ matrix.astype(np.float64).T)

    def standardise(self, centre: str, spread: str, values: Floats) -> Floats:
        """Return (x - centre) / spread."""
        return (values - self._tensor(centre)) / self._tensor(spread)

    def batch_norm(self, name: str, values: Floats) -> Floats:
        """Return the normalisation by the running statistics."""
        parts = ("weight", "bias", "running_mean", "running_var")
        weight, bias, mean, variance = (self._tensor(f"{name}.{part}") for part in parts)
        return (values - mean) / np.sqrt(variance + _VARIANCE_EPSILON) * weight + bias

    def dropout(self, values: Floats, rate: float, layer: int) -> Floats:
        """Return the values as they are: a model in use drops nothing."""
        del rate, layer
        return values

    def relu(self, values: Floats) -> Floats:
        """Return max(values, 0)."""
        return np.maximum(values, 0)

    def add(self, one: Floats, two: Floats, name: str = "") -> Floats:
        """Return the sum."""
        return one + two

    def scale(self, values: Floats, factor: float) -> Floats:
        """Return the values times a constant."""
        return values * factor

    def module(self, body: ModuleSource, values: Floats) -> Floats:
        """Return a torch module's features, by torch in float32."""
        from fleetledger.export.torch_module import module_features  # noqa: PLC0415 - needs torch

        return module_features(body, self._arrays, values)

    def _has(self, name: str) -> bool:
        return name in self._arrays

    def _tensor(self, name: str) -> Floats:
        return self._arrays[name].astype(np.float64)

"""A network on the features of a frozen backbone as `head.onnx`: the backbone stays a file alone.

The frozen model puts out the backbone's features as they are, and all that is trained lies in the
head, so a new version moves the network and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fleetledger.export.builder import GraphBuilder
from fleetledger.export.head import finish_head
from fleetledger.export.network import add_trunk, check_network, head_rows
from fleetledger.export.numpy_layers import Floats, NumpyLayers
from fleetledger.export.onnx_layers import GraphValue
from fleetledger.export.package import ExportRules
from fleetledger.learning.networks.body import Layers
from fleetledger.learning.networks.head import BIAS, SCALE, WEIGHT, row_inputs
from fleetledger.learning.networks.network import Network
from fleetledger.schemas.models import FEATURES, SCORES

NETWORK_RULES = ExportRules(relative=True)
"""Limits of a network's export."""


@dataclass(frozen=True, eq=False)
class NetworkHead:
    """A trained network in use, with its tensors by name and the width of its input."""

    network: Network
    arrays: Mapping[str, npt.NDArray[Any]]
    features: int
    base: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """The tensors that nobody trains."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of classes and of features.

        Raises `ModelFileError` where the tensors are not the network's.
        """
        return check_network(self.network, self.arrays), self.features

    def file(self, logit_scale: float) -> bytes:
        """Return the network as `head.onnx`; equal networks give equal bytes."""
        classes, width = self.shape
        graph = GraphBuilder("network/")
        add_trunk(
            graph, self.network, self._tensors, GraphValue(FEATURES, 2), "network/before_rows"
        )
        rows = graph.constant("rows", head_rows(self.arrays), np.float32)
        graph.add("Gemm", "network/before_rows", rows, output=SCORES, transB=1)
        return finish_head(graph, classes, width, logit_scale)

    @property
    def _tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        return {**self.base, **self.arrays}

    def expected(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the network's scores by its description, in float64."""
        network = self.network
        # A network on features uses no layer of pictures or tokens.
        layers = cast("Layers[Floats]", NumpyLayers(self._tensors))
        body = network.body.features(layers, features.astype(np.float64))
        values = row_inputs(network.head, layers, body, network.head_dropout)
        weight = self.arrays[WEIGHT].astype(np.float64)
        if SCALE not in self.arrays:
            return np.asarray(values @ weight.T + self.arrays[BIAS])
        cosines = _unit(values) @ _unit(weight).T
        return np.asarray(self.arrays[SCALE] * cosines)


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12))

"""A trained network as ONNX: its trunk from images to features, and the rows of its head.

The network's own text (`learning.networks.body`) is carried out once more, with layers that write
nodes instead of numbers: nothing is traced, and no torch is needed. A body that is a torch module
is written by torch's exporter. The head of a model knows neither bias nor cosine, so the trunk
takes their part:

    linear head   features (f, 1), rows (w_c, b_c):        z_c = w_c . f + b_c
    hidden head   the same of what its hidden layer makes of f
    cosine head   features f / |f|, rows eta w_c / |w_c|:  z_c = eta cos(w_c, f)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import build_dense_golden, build_golden
from fleetledger.export.graph import BATCH
from fleetledger.export.head import Head, RowsHead
from fleetledger.export.input_kinds import channels_last
from fleetledger.export.onnx_layers import GraphValue, OnnxLayers
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.head import BIAS, SCALE, WEIGHT, row_inputs
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.schemas.models import FEATURES, AnyPreprocessing, of_pictures
from fleetledger.schemas.text import TextPreprocessing

Arrays = Mapping[str, npt.NDArray[Any]]

_NORM_EPSILON = 1e-12
"""Below which a length does not divide, as torch's `normalize` does."""


@dataclass(frozen=True)
class NetworkFiles:
    """Parts of a model: the trunk's ONNX file and the head."""

    trunk: bytes
    head: Head
    golden: bytes
    """Golden batch of models with that trunk."""


def export_network(
    network: Network | SegmentationNetwork,
    arrays: Arrays,
    preprocessing: AnyPreprocessing,
    base: Arrays | None = None,
) -> NetworkFiles:
    """Return trunk and head of a network in use: dropout off, normalised by running statistics.

    `base` holds the tensors that are not trained. The trunk's one input is what `preprocessing`
    makes, its output is named `features`, (N, M) or (N, M, h, w). Raises `ModelFileError` where
    tensors are missing or misshapen, or the layout is not NCHW, and `ParityError` where ONNX
    Runtime strays from the torch module that a body is.
    """
    if isinstance(network, SegmentationNetwork):
        dense = export_segmentation(network, arrays, of_pictures(preprocessing))
        return NetworkFiles(dense.trunk, dense.head, build_dense_golden(preprocessing))
    _check(network, arrays, preprocessing)
    trunk = _trunk(network, {**(base or {}), **arrays}, preprocessing)
    if isinstance(network.body, ModuleBody):
        from fleetledger.export.torch_module import require_trunk_parity  # noqa: PLC0415 - needs torch

        require_trunk_parity(network, arrays, trunk, preprocessing)
    return NetworkFiles(trunk, RowsHead(head_rows(arrays)), build_golden(trunk, preprocessing))


def export_body(
    network: Network, arrays: Arrays, preprocessing: AnyPreprocessing, base: Arrays | None = None
) -> bytes:
    """Return the network without its head as a backbone's ONNX file: pictures in, features out.

    `base` holds the tensors that are not trained. Raises `ModelFileError` as `export_network` does.
    """
    _check(network, arrays, preprocessing)
    graph = GraphBuilder()
    source = GraphValue(preprocessing.input_name, len(preprocessing.shape) + 1)
    layers = OnnxLayers(graph, {**(base or {}), **arrays})
    features = network.body.features(layers, source).name
    return graph.model(
        [float_value(preprocessing.input_name, BATCH, *preprocessing.shape)],
        [float_value(features, BATCH, network.width)],
    )


def check_network(network: Network, arrays: Arrays) -> int:
    """Return the number of classes; raise `ModelFileError` where tensors are not the network's."""
    classes = len(arrays[WEIGHT]) if WEIGHT in arrays else 0
    try:
        network.check(arrays, classes)
    except LearningError as error:
        raise ModelFileError(f"network: {error}") from error
    return classes


def _check(network: Network, arrays: Arrays, preprocessing: AnyPreprocessing) -> None:
    check_network(network, arrays)
    if isinstance(preprocessing, TextPreprocessing):
        raise ModelFileError(
            "preprocessing.mode: 'text', but a network that sees samples itself takes pictures or "
            "arrays; train one on the features of a frozen encoder (docs/text.md)"
        )
    if channels_last(preprocessing):
        raise ModelFileError("preprocessing.layout: 'NHWC'; networks take 'NCHW'")


def _trunk(network: Network, arrays: Arrays, preprocessing: AnyPreprocessing) -> bytes:
    graph = GraphBuilder("network/")
    source = GraphValue(preprocessing.input_name, len(preprocessing.shape) + 1)
    width = add_trunk(graph, network, arrays, source, FEATURES)
    return graph.model(
        [float_value(preprocessing.input_name, BATCH, *preprocessing.shape)],
        [float_value(FEATURES, BATCH, width)],
    )


def add_trunk(
    graph: GraphBuilder, network: Network, arrays: Arrays, source: GraphValue, output: str
) -> int:
    """Add the nodes from `source` to what `head_rows` are multiplied with; return its width."""
    layers = OnnxLayers(graph, arrays)
    body = network.body.features(layers, source)
    features = row_inputs(network.head, layers, body, network.head_dropout).name
    if network.head == "cosine":
        length = graph.add("ReduceL2", features, axes=[1], keepdims=1)
        least = graph.constant("least_length", [_NORM_EPSILON], np.float32)
        graph.add("Div", features, graph.add("Max", length, least), output=output)
        return network.row_width
    pads = graph.constant("one_more", [0, 0, 0, 1], np.int64)
    one = graph.constant("one", 1, np.float32)
    graph.add("Pad", features, pads, one, output=output)
    return network.row_width + 1


def head_rows(arrays: Arrays) -> npt.NDArray[np.float32]:
    """Return the rows (C, M) of a network's head, as the module says."""
    if SCALE in arrays:
        rows = arrays[SCALE] * _unit_rows(arrays[WEIGHT])
    else:
        rows = np.concatenate([arrays[WEIGHT], arrays[BIAS][:, np.newaxis]], axis=1)
    return np.ascontiguousarray(rows, np.float32)


def _unit_rows(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, _NORM_EPSILON))

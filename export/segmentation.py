"""A trained dense network as two ONNX files: the trunk to features of pixels, and the head.

    frozen.onnx   picture -> features (N, M, h, w), at the network's stride
    head.onnx     features -> small_scores (N, C, h, w) = w_c . f + b_c
                           -> scores (N, C, H, W), those resized to the picture

Rows are in the order of the classes, the background first. Scores are put out for every pixel of
the picture, because a class between two pixels of the features is known from both their scores,
not from both their classes. The small scores, which `scores` are made of, serve self-tests: they
are as many times fewer as the stride is squared. Probabilities are left to who wants them, a
second array of that size: softmax of `logit_scale` times scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.dense_layers import OnnxDenseLayers
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH
from fleetledger.export.onnx_layers import GraphValue
from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.head import BIAS, WEIGHT
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.numerics.bilinear import resized
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import FEATURES, SCORES, SMALL_SCORES, Preprocessing

Arrays = Mapping[str, npt.NDArray[Any]]
Size = tuple[int, int]

MAX_MAP_NUMBERS = 1 << 26
"""Numbers of one picture's features or scores: 256 MiB as float32."""


@dataclass(frozen=True, eq=False)
class DenseHead:
    """The rows of a dense network's head, for features (N, M, *small) of pictures of `size`."""

    weight: npt.NDArray[np.float32]
    """(C, M), the background's row first."""
    bias: npt.NDArray[np.float32]
    small: Size
    size: Size

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and of features, (C, M)."""
        return self.weight.shape

    def file(self, _logit_scale: float = 1.0) -> bytes:
        """Return `head.onnx`; equal heads give equal bytes."""
        rows, width = self.weight.shape
        graph = GraphBuilder()
        kernel = graph.constant("weights", self.weight[:, :, None, None], np.float32)
        shift = graph.constant("biases", self.bias, np.float32)
        graph.add("Conv", FEATURES, kernel, shift, output=SMALL_SCORES)
        layers = OnnxDenseLayers(graph, {})
        large = layers.resize_to(GraphValue(SMALL_SCORES, 4), self.size)
        graph.add("Identity", large.name, output=SCORES)
        return graph.model(
            [float_value(FEATURES, BATCH, width, *self.small)],
            [
                float_value(SCORES, BATCH, rows, *self.size),
                float_value(SMALL_SCORES, BATCH, rows, *self.small),
            ],
        )

    def expected(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the scores (N, C, H, W) of features (N, M, h, w), in float64 with NumPy."""
        return resized(self.expected_small(features), self.size)

    def expected_small(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the scores (N, C, h, w) that are not resized yet, as `expected` computes them."""
        pixels = features.reshape(len(features), self.weight.shape[1], -1).astype(np.float64)
        scores = self.weight.astype(np.float64) @ pixels + self.bias[:, np.newaxis]
        return np.asarray(scores.reshape(len(features), len(self.weight), *self.small))


@dataclass(frozen=True, eq=False)
class SegmentationFiles:
    """Parts of a dense model: the trunk's ONNX file and the head."""

    trunk: bytes
    head: DenseHead


def export_segmentation(
    network: SegmentationNetwork, arrays: Arrays, preprocessing: Preprocessing
) -> SegmentationFiles:
    """Return trunk and head of a network in use: dropout off, normalised by running statistics.

    Raises `ModelFileError` where tensors are missing or misshapen, the layout is not NCHW, or a
    picture's features or scores would be more than `MAX_MAP_NUMBERS`.
    """
    _check(network, arrays, preprocessing)
    small = _reduced(preprocessing.size, network.body.stride)
    head = DenseHead(arrays[WEIGHT], arrays[BIAS], small, preprocessing.size)
    _check_count("features", network.width, small)
    _check_count("scores", len(head.weight), head.size)
    return SegmentationFiles(_trunk(network, arrays, preprocessing, small), head)


def _check(network: SegmentationNetwork, arrays: Arrays, preprocessing: Preprocessing) -> None:
    try:
        network.check(arrays, len(arrays.get(WEIGHT, ())) - 1)
    except LearningError as error:
        raise ModelFileError(f"network: {error}") from error
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ModelFileError(f"network: {name!r} holds NaN or infinity; begin a new round")
    if preprocessing.layout != "NCHW":
        raise ModelFileError(
            f"preprocessing.layout: {preprocessing.layout!r}; networks take 'NCHW'"
        )


def _check_count(what: str, width: int, size: Size) -> None:
    count = width * size[0] * size[1]
    if count > MAX_MAP_NUMBERS:
        raise ModelFileError(
            f"preprocessing.size: {what} of one picture would be {count_of(count, 'number')}, more "
            f"than {MAX_MAP_NUMBERS}; give the network smaller pictures"
        )


def _reduced(size: Size, stride: int) -> Size:
    """Return the size of maps at that stride; every halving rounds up."""
    return -(-size[0] // stride), -(-size[1] // stride)


def _trunk(
    network: SegmentationNetwork, arrays: Arrays, preprocessing: Preprocessing, small: Size
) -> bytes:
    graph = GraphBuilder("network/")
    layers = OnnxDenseLayers(graph, arrays)
    maps = network.body.maps(layers, GraphValue(preprocessing.input_name, 4))
    graph.add("Identity", maps.features.name, output=FEATURES)
    return graph.model(
        [float_value(preprocessing.input_name, BATCH, *preprocessing.shape)],
        [float_value(FEATURES, BATCH, network.width, *small)],
    )

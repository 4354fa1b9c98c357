"""A frozen network for windows of sensors that nobody has to train: random convolutions in time.

After ROCKET (Dempster, Petitjean and Webb, Data Mining and Knowledge Discovery 2020): kernels of
nine weights are drawn from a normal distribution, with several dilations, and of what each gives
over a window the share of positive numbers and the largest are features. Every channel of a window
is brought to mean 0 and deviation 1 before, and the logarithm of its deviation is a feature too, so
that units do not matter and the strength of a movement stays known.
"""

from __future__ import annotations

import numpy as np

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.graph import BATCH
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.datasets.arrays import LabelledArrays
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.errors import BackboneError

KERNELS = 32
"""Of each dilation."""
_WEIGHTS = 9
_LEAST_DEVIATION = 1e-3
_LARGEST = 0.25
"""Factor that brings the largest numbers, of some four deviations, to the size of the others."""


def array_preprocessing(split: Split) -> ArrayPreprocessing:
    """Return how networks see the arrays of a data set: as they are."""
    assert isinstance(split.train, LabelledArrays)
    return ArrayPreprocessing(mode="array", shape=split.train.shape, input_name="array")


def rocket_backbone(split: Split, seed: int = 1) -> Backbone:
    """Return the network for windows (channels, time); raise `BackboneError` for other samples."""
    if not isinstance(split.train, LabelledArrays) or len(split.train.shape) != 2:
        raise BackboneError(
            "backbone.network: 'rocket' sees windows (channels, time) of float32, and the samples "
            "are others; give 'pixels', or 'file' with a network of your own"
        )
    preprocessing = array_preprocessing(split)
    return Backbone("rocket", rocket_onnx(preprocessing, seed), preprocessing)


def rocket_onnx(preprocessing: ArrayPreprocessing, seed: int) -> bytes:
    """Return the network as ONNX: windows (N, channels, time) in, features (N, width) out."""
    channels, time = preprocessing.shape
    random, graph = np.random.default_rng(seed), GraphBuilder()
    source = preprocessing.input_name
    centred = graph.add("Sub", source, graph.add("ReduceMean", source, axes=[2], keepdims=1))
    squares = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[2], keepdims=1)
    least = graph.constant("least", [_LEAST_DEVIATION], np.float32)
    deviation = graph.add("Max", graph.add("Sqrt", squares), least)
    normal = graph.add("Div", centred, deviation)
    features = [graph.add("Flatten", graph.add("Log", deviation), axis=1)]
    zero, scale = graph.constant("zero", [0], np.float32), [_LARGEST]
    largest = graph.constant("largest", scale, np.float32)
    for dilation in _dilations(time):
        kernels = random.normal(size=(KERNELS, channels, _WEIGHTS))
        kernels *= random.random((KERNELS, channels, 1)) < max(0.5, 1 / channels)
        kernels -= kernels.mean(axis=2, keepdims=True)
        lengths = np.sqrt((kernels**2).sum(axis=(1, 2), keepdims=True))
        kernels /= np.maximum(lengths, 1e-6)
        bias = random.uniform(-1, 1, KERNELS)
        reach = dilation * (_WEIGHTS // 2)
        found = graph.add(
            "Conv",
            normal,
            graph.constant(f"kernels_{dilation}", kernels, np.float32),
            graph.constant(f"bias_{dilation}", bias, np.float32),
            dilations=[dilation],
            pads=[reach, reach],
        )
        positive = graph.add("Cast", graph.add("Greater", found, zero), to=1)
        features.append(graph.add("ReduceMean", positive, axes=[2], keepdims=0))
        most = graph.add("ReduceMax", found, axes=[2], keepdims=0)
        features.append(graph.add("Mul", most, largest))
    output = graph.add("Concat", *features, axis=1)
    width = channels + 2 * KERNELS * len(_dilations(time))
    return graph.model(
        [float_value(source, BATCH, *preprocessing.shape)], [float_value(output, BATCH, width)]
    )


def _dilations(time: int) -> list[int]:
    """Return steps between weights with which a kernel fits into a window, at least 1."""
    return [step for step in (1, 2, 4, 8) if step == 1 or step * (_WEIGHTS - 1) < time]

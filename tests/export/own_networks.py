"""Networks as somebody else would bring them: a classifier, a segmenter, one with a raw output."""

from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from fleetledger.schemas.models import Preprocessing
from tests.export.networks import network, pooled, value

PICTURES = Preprocessing(
    mode="RGB", size=(12, 10), mean=(0.5, 0.4, 0.3), deviation=(0.2, 0.3, 0.4), input_name="image"
)


def rows(classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(classes, 7)).astype(np.float32)


def classifier(
    classes: int = 3, seed: int = 5, *, softmax: bool = False, batch: Any = "batch", **changes: Any
) -> ModelProto:
    """Convolution, pooling, and a layer of rows at the end."""
    nodes, constants = pooled()
    nodes.append(
        helper.make_node("Gemm", ["flat", "rows", "shift"], ["logits"], name="fc", transB=1)
    )
    constants += [
        numpy_helper.from_array(rows(classes, seed), "rows"),
        numpy_helper.from_array(np.linspace(0, 1, classes, dtype=np.float32), "shift"),
    ]
    name = "logits"
    if softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], ["shares"], axis=-1))
        name = "shares"
    return network(
        (nodes, constants),
        value(name, [batch, classes]),
        value("image", [batch, 3, 12, 10]),
        **changes,
    )


def segmenter(classes: int = 3, *, enlarges: bool = True) -> ModelProto:
    """A convolution with stride 2, a row for each pixel, and the way back to the picture's size."""
    draw = np.random.default_rng(9)
    nodes = [
        helper.make_node("Conv", ["image", "first"], ["half"], strides=[2, 2], pads=[0, 0, 0, 0]),
        helper.make_node("Relu", ["half"], ["features of pixels"]),
        helper.make_node("Conv", ["features of pixels", "rows"], ["small"]),
    ]
    constants = [
        numpy_helper.from_array(draw.normal(size=(4, 3, 2, 2)).astype(np.float32), "first"),
        numpy_helper.from_array(draw.normal(size=(classes, 4, 1, 1)).astype(np.float32), "rows"),
    ]
    if not enlarges:
        return network((nodes, constants), value("small", ["n", classes, 6, 5]))
    scales = np.array([1, 1, 2, 2], np.float32)
    constants.append(numpy_helper.from_array(scales, "scales"))
    nodes.append(helper.make_node("Resize", ["small", "", "scales"], ["large"], mode="linear"))
    return network((nodes, constants), value("large", ["n", classes, 12, 10]))


def boxes(batch: Any = 1) -> ModelProto:
    """What nobody here reads: four numbers for each of thirty places."""
    nodes = [
        helper.make_node("Conv", ["image", "first"], ["half"], strides=[2, 2]),
        helper.make_node("Reshape", ["half", "shape"], ["boxes"]),
    ]
    weights = np.random.default_rng(2).normal(size=(4, 3, 2, 2)).astype(np.float32)
    constants = [
        numpy_helper.from_array(weights, "first"),
        numpy_helper.from_array(np.array([batch if batch == 1 else 0, 4, 30]), "shape"),
    ]
    return network(
        (nodes, constants), value("boxes", [batch, 4, 30]), value("image", [batch, 3, 12, 10])
    )

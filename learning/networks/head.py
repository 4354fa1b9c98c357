"""The head: one row per class, which grows by class name.

A new row depends on (seed, class name) alone, so every site that grows the head by the same names
gets the same rows, whatever came before. Rows begin as torch begins a linear layer: uniform within
+-1/sqrt(d), weight and bias.

    linear   z_c = w_c . f + b_c
    cosine   z_c = eta <w_c / |w_c|, f / |f|>,  eta learnable (LUCIR: Hou et al., CVPR 2019)
    hidden   z_c = w_c . g + b_c,  g = dropout(relu(norm(hidden f))), 128 numbers (FedHAF)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.plan import (
    Arrays,
    TensorPlan,
    initial_arrays,
    linear_plan,
    normalisation_plan,
    uniform,
)
from fleetledger.learning.networks.seeding import stream_key

HeadKind = Literal["linear", "cosine", "hidden"]

WEIGHT = "head.weight"
BIAS = "head.bias"
SCALE = "head.scale"

ROWS = (WEIGHT, BIAS)
"""The tensors with one row for each class; the head's others do not grow."""
HIDDEN_WIDTH = 128
"""Of the hidden head's one hidden layer."""

_PREFIX = "head."
_HIDDEN, _NORM = "head.hidden", "head.norm"
_DROPOUT_LAYER = 1 << 16
"""The number of the head's dropout, which no body reaches with its own."""


def head_plan(kind: HeadKind, width: int) -> list[TensorPlan]:
    """Return the tensors of a head on `width` features that do not grow with the classes."""
    if kind == "cosine":
        return [TensorPlan(SCALE, (), centre=1.0)]
    if kind == "linear":
        return []
    layer = linear_plan(_HIDDEN, width, HIDDEN_WIDTH)
    return [*layer, *normalisation_plan(_NORM, HIDDEN_WIDTH)]


def is_of_head(name: str) -> bool:
    """Return whether a network's tensor of that name is its head's."""
    return name.startswith(_PREFIX)


def row_shapes(kind: HeadKind, width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors with a row for each class."""
    weight = (classes, row_width(kind, width))
    return {WEIGHT: weight} if kind == "cosine" else {WEIGHT: weight, BIAS: (classes,)}


def row_width(kind: HeadKind, width: int) -> int:
    """Return the length of a row of a head on `width` features."""
    return HIDDEN_WIDTH if kind == "hidden" else width


def row_inputs(kind: HeadKind, layers: Layers[V], features: V, rate: float) -> V:
    """Return what the rows see (..., n, row width); `rate` is the hidden layer's dropout."""
    if kind != "hidden":
        return features
    values = layers.batch_norm(_NORM, layers.linear(_HIDDEN, features))
    return layers.dropout(layers.relu(values), rate, _DROPOUT_LAYER)


def initial_head(kind: HeadKind, width: int, names: Sequence[str], seed: int) -> Arrays:
    """Return a head on `width` features with one row per class name, in that order."""
    shapes = row_shapes(kind, width, classes=0)
    head: Arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return grow_head(head | initial_arrays(head_plan(kind, width), seed), names, seed)


def grow_head(
    arrays: Mapping[str, npt.NDArray[Any]], names: Sequence[str], seed: int
) -> dict[str, npt.NDArray[Any]]:
    """Return all of a network's `arrays` with a row more for each of the class `names`.

    Raises `NetworkError` where `arrays` hold no head, or a name comes twice.
    """
    if WEIGHT not in arrays:
        raise NetworkError(f"head: {WEIGHT!r} is not among the tensors; give a whole network")
    if len(set(names)) != len(names):
        raise NetworkError(f"classes: {sorted(names)} holds a name twice; name each class once")
    grown = dict(arrays)
    width = arrays[WEIGHT].shape[1]
    rows = [_row(WEIGHT, name, width, width, seed) for name in names]
    grown[WEIGHT] = np.concatenate([arrays[WEIGHT], np.reshape(rows, (len(names), width))])
    if BIAS in arrays:
        entries = [_row(BIAS, name, 1, width, seed) for name in names]
        grown[BIAS] = np.concatenate([arrays[BIAS], np.reshape(entries, len(names))])
    return {name: np.asarray(grown[name], arrays[name].dtype) for name in grown}


def _row(tensor: str, name: str, count: int, width: int, seed: int) -> npt.NDArray[np.float32]:
    return uniform(stream_key(seed, tensor, name), count, 1 / sqrt(width))

"""The general model as a file: a network's weights, and class means where these are to answer.

The file is that of `methods.network_weights`. With means it has one tensor more, `nearest.rows`
(C, d): the direction of each class's mean feature, zero where no site has an anchor of the class.
Training goes on from the weights; means are measured anew after each session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.networks.head import BIAS, SCALE, WEIGHT
from learning.networks.network import Network
from methods.errors import ContributionError
from schemas.errors import SchemaError
from schemas.tensors import Expected, encode_tensors, read_tensors
from schemas.values import ClassName

Arrays = dict[str, npt.NDArray[Any]]

ROWS = "nearest.rows"
NEAREST_SCALE = 10.0
"""What cosines with class means are multiplied with before the softmax; ranking is free of it."""
_NAMES, _NEAREST = "class_names", "nearest_mean"
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class General:
    """The general model."""

    arrays: Arrays
    names: tuple[ClassName, ...]
    """Rows of its head, as they were called when it was written."""
    rows: npt.NDArray[np.float32] | None = None
    """Directions of class means (C, d), where these were measured."""


def encode_general(
    arrays: Mapping[str, npt.NDArray[Any]],
    names: Sequence[ClassName],
    rows: npt.NDArray[np.float32] | None = None,
) -> bytes:
    """Return the model as bytes; without `rows` those of `methods.network_weights`."""
    if rows is None:
        return encode_tensors(arrays, {_NAMES: list(names)}, compress=False)
    metadata = {_NAMES: list(names), _NEAREST: True}
    return encode_tensors({**arrays, ROWS: rows}, metadata, compress=False)


def decode_general(data: bytes, network: Network) -> General:
    """Return the model; raise `ContributionError` for other files."""

    def expected(metadata: dict[str, Any]) -> dict[str, Expected]:
        classes = len(metadata.get(_NAMES, ()))
        shapes = network.shapes(classes)
        if metadata.get(_NEAREST):
            shapes[ROWS] = (classes, network.width)
        return {name: Expected("float32", shape) for name, shape in shapes.items()}

    try:
        file = read_tensors(data, expected, len(data) + _HEADER_BYTES)
        names = tuple(ClassName(name) for name in file.metadata.get(_NAMES, ()))
    except SchemaError as error:
        raise ContributionError(f"weights: {error}") from error
    return General(file.tensors, names, file.tensors.pop(ROWS, None))


def answering(network: Network, model: General) -> tuple[Network, Arrays]:
    """Return the network that an exported model is: with its head, or with class means for rows.

    A cosine head whose rows are the means answers with the nearest: of vectors of length 1 the
    nearest has the largest cosine.
    """
    if model.rows is None:
        return network, model.arrays
    body = {n: a for n, a in model.arrays.items() if n not in (WEIGHT, BIAS, SCALE)}
    head = {WEIGHT: model.rows, SCALE: np.array(NEAREST_SCALE, np.float32)}
    return replace(network, head="cosine"), {**body, **head}

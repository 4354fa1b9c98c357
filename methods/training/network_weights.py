"""The weights of a network as a file: what a coordinator sends, and what heads grow from.

Float32 tensors by name, parameters and buffers, with the class names of the head's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy.typing as npt

from fleetledger.learning.networks.head import ROWS, grow_head
from fleetledger.learning.networks.network import AnyNetwork
from fleetledger.methods.errors import ContributionError
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName

Arrays = dict[str, npt.NDArray[Any]]

_HEADER_BYTES = 1 << 20
_CLASSES = "class_names"


def encode_weights(arrays: Mapping[str, npt.NDArray[Any]], names: Sequence[ClassName]) -> bytes:
    """Return a network's weights as bytes; `names` are the rows of its head."""
    return encode_tensors(arrays, {_CLASSES: list(names)})


def decode_weights(data: bytes, network: AnyNetwork) -> tuple[Arrays, tuple[ClassName, ...]]:
    """Return the tensors and the rows of the head; raise `ContributionError` for other files."""

    def expected(metadata: dict[str, Any]) -> dict[str, Expected]:
        shapes = network.shapes(len(metadata.get(_CLASSES, ())))
        return {name: Expected("float32", shape) for name, shape in shapes.items()}

    try:
        file = read_tensors(data, expected, len(data) + _HEADER_BYTES)
        names = tuple(ClassName(name) for name in file.metadata.get(_CLASSES, ()))
    except SchemaError as error:
        raise ContributionError(f"weights: {error}") from error
    return file.tensors, names


def decode_base(data: bytes, network: AnyNetwork) -> Arrays:
    """Return the tensors of a network that nobody trains; raise `ContributionError` for others."""
    plans = network.body.base_plan()
    expected = {plan.name: Expected("float32", plan.shape) for plan in plans}
    try:
        return read_tensors(data, lambda _: expected, len(data) + _HEADER_BYTES).tensors
    except SchemaError as error:
        raise ContributionError(f"base: {error}") from error


def first_rows(
    arrays: Mapping[str, npt.NDArray[Any]],
    written: Sequence[ClassName],
    names: Sequence[ClassName],
    aliases: Mapping[ClassName, ClassName],
) -> tuple[Arrays, tuple[ClassName, ...]]:
    """Return tensors whose head has only the rows that `names` begins with, and which these are.

    `written` are the rows as they were called when the tensors were made, and `aliases` other names
    of `names`. A head only grows, so these are its own; of merged classes the first row stays.
    """
    own = [aliases.get(name, name) for name in written]
    first = tuple(takewhile(lambda name: name in own, names))
    rows = [own.index(name) for name in first]
    return {name: array[rows] if name in ROWS else array for name, array in arrays.items()}, first


def grown(
    arrays: Mapping[str, npt.NDArray[Any]],
    old: Sequence[ClassName],
    new: Sequence[ClassName],
    seed: int,
) -> Arrays:
    """Return the weights with the head's rows of `new`, in that order.

    Rows of classes that are in `old` are kept, others begin by seed and name, alike everywhere.
    """
    added = [name for name in new if name not in old]
    every = grow_head(arrays, added, seed)
    rows = [(*old, *added).index(name) for name in new]
    return {name: array[rows] if name in ROWS else array for name, array in every.items()}

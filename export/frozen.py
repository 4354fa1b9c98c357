"""`frozen.onnx`: backbone, quantisation per sample, random map and rounding, once per lineage.

With features f of the backbone (float32, width d), all per sample:

    q = rint(f / max|f| * 127)                     integers in [-127, 127]
    a = relu(q R)                                  R: integer map (d x M)
    h = (2 a Q + m) // (2 m),  m = max(a)          integers in [0, Q], Q = 2^feature_bits - 1

A sample whose maximum is zero gives zeros. Everything after q is integer arithmetic, done in types
that hold it exactly, so h depends on the runtime only through f. From the same f the functions of
`learning.numerics.integer_features` give the same bits. Map "none" puts out h = q, map "gaussian"
h = relu(f R) in float32.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH, clean, opset_of, output_width, write
from fleetledger.export.rules import STANDARD_DOMAINS, check, read_model
from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.integer_features import (
    QUANTISED_LARGEST,
    exact_product_type,
    largest_feature,
)
from fleetledger.schemas.models import FEATURES, MAX_FEATURES

MapKind = Literal["integer", "gaussian", "none"]
_AXES_ARE_INPUTS = 18
"""Opset from which `ReduceMax` takes its axes as an input."""
_Matrix = npt.NDArray[Any]


def build_frozen(
    backbone: bytes,
    kind: MapKind,
    matrix: _Matrix | None = None,
    *,
    feature_bits: int = 7,
    domains: frozenset[str] = STANDARD_DOMAINS,
) -> bytes:
    """Return the ONNX model from images to features h (N, M), float32 named `features`.

    `backbone` is an imported backbone of width d, `matrix` the map R of shape (d, M): integers for
    kind "integer", floats for "gaussian", absent for "none". `feature_bits` is 7 or 8 and counts
    for "integer" only. Raises `ModelFileError` if they do not fit together.
    """
    model = clean(read_model(backbone, domains))
    width = output_width(model)
    _check_map(kind, matrix, width, feature_bits)
    tail = _Tail("map/", opset=opset_of(model))
    source = model.graph.output[0].name
    if kind == "gaussian":
        assert matrix is not None
        tail.gaussian(source, matrix)
    elif kind == "integer":
        assert matrix is not None
        tail.integer(source, matrix, feature_bits)
    else:
        tail.quantise(source, output=FEATURES)
    return _joined(model, tail, width if matrix is None else matrix.shape[1], domains)


def plain_frozen(backbone: bytes, domains: frozenset[str] = STANDARD_DOMAINS) -> bytes:
    """Return an imported backbone whose output is named `features`, and nothing after it.

    For networks that are trained on its features: equal backbones give equal bytes.
    """
    model = clean(read_model(backbone, domains))
    width = output_width(model)
    tail = GraphBuilder("map/")
    tail.add("Identity", model.graph.output[0].name, output=FEATURES)
    return _joined(model, tail, width, domains)


class _Tail(GraphBuilder):
    """The nodes after the backbone."""

    def __init__(self, prefix: str, opset: int) -> None:
        super().__init__(prefix)
        self._opset = opset

    def quantise(self, features: str, output: str | None = None) -> str:
        """Return q = rint(f / max|f| * 127); zeros stay zeros."""
        largest = self._row_max(self.add("Abs", features))
        zero = self.constant("zero", [0], np.float32)
        one = self.constant("one", [1], np.float32)
        divisor = self.add("Where", self.add("Equal", largest, zero), one, largest)
        levels = self.constant("levels", [QUANTISED_LARGEST], np.float32)
        scaled = self.add("Mul", self.add("Div", features, divisor), levels)
        return self.add("Round", scaled, output=output)

    def integer(self, features: str, matrix: _Matrix, feature_bits: int) -> None:
        """Put out h from f, as the module describes."""
        quantised = self.quantise(features)
        exact = _exact_type(matrix)
        stored = self.constant("matrix", matrix, _smallest_type(matrix))
        product = self.add(
            "MatMul",
            self.add("Cast", quantised, to=exact),
            self.add("Cast", stored, to=exact),
        )
        positive = self.add("Relu", product)
        self._round(positive, self._row_max(positive), largest_feature(feature_bits))

    def gaussian(self, features: str, matrix: _Matrix) -> None:
        """Put out h = relu(f R) in float32, not rounded."""
        product = self.add("MatMul", features, self.constant("matrix", matrix, np.float32))
        self.add("Relu", product, output=FEATURES)

    def _round(self, values: str, largest: str, levels: int) -> None:
        """Put out h = (2 a Q + m) // (2 m) in int64; nothing is negative, so `Div` rounds down."""
        a, m = (self.add("Cast", name, to=TensorProto.INT64) for name in (values, largest))
        zero, one = (self.constant(f"int_{n}", [n], np.int64) for n in (0, 1))
        m = self.add("Where", self.add("Equal", m, zero), one, m)
        twice_levels = self.constant("twice_levels", [2 * levels], np.int64)
        numerator = self.add("Add", self.add("Mul", a, twice_levels), m)
        quotient = self.add("Div", numerator, self.add("Add", m, m))
        self.add("Cast", quotient, output=FEATURES, to=TensorProto.FLOAT)

    def _row_max(self, values: str) -> str:
        if self._opset < _AXES_ARE_INPUTS:
            return self.add("ReduceMax", values, axes=[1], keepdims=1)
        axes = f"axes_{len(self.nodes)}"
        return self.add("ReduceMax", values, self.constant(axes, [1], np.int64), keepdims=1)


def _smallest_type(matrix: _Matrix) -> npt.DTypeLike:
    """Return the integer type to store the map in: one byte an entry in the usual case."""
    return np.min_scalar_type(-int(np.abs(matrix.astype(np.int64)).max()) - 1)


def _exact_type(matrix: _Matrix) -> int:
    """Return the float type in which every sum of the product q R is an exact integer."""
    try:
        single = exact_product_type(matrix) is np.float32
    except RangeError as error:
        raise ModelFileError(f"matrix: {error}") from error
    return int(TensorProto.FLOAT if single else TensorProto.DOUBLE)


def _check_map(kind: MapKind, matrix: _Matrix | None, width: int, feature_bits: int) -> None:
    if kind not in ("integer", "gaussian", "none"):
        raise ModelFileError(f"map: {kind!r} is unknown; give 'integer', 'gaussian' or 'none'")
    if (matrix is None) != (kind == "none"):
        raise ModelFileError(
            f"matrix: {'missing' if matrix is None else 'given'} with map {kind!r}; only the maps "
            "'integer' and 'gaussian' have a matrix, and they need it"
        )
    if matrix is None:
        return
    if matrix.ndim != 2 or matrix.shape[0] != width or not 1 <= matrix.shape[1] <= MAX_FEATURES:
        raise ModelFileError(
            f"matrix: shape {matrix.shape} does not fit the backbone; give ({width}, M) with M "
            f"from 1 to {MAX_FEATURES}"
        )
    integers = np.issubdtype(matrix.dtype, np.signedinteger)
    if kind == "integer" and not integers:
        raise ModelFileError(f"matrix: {matrix.dtype} for an integer map; give signed integers")
    if kind == "gaussian" and not np.isfinite(matrix).all():
        raise ModelFileError("matrix: NaN or infinite entries; make it again from its seed")
    if kind == "integer" and feature_bits not in (7, 8):
        raise ModelFileError(f"feature_bits: {feature_bits} is not supported; give 7 or 8")


def _joined(model: ModelProto, tail: GraphBuilder, features: int, domains: frozenset[str]) -> bytes:
    graph = model.graph
    graph.node.extend(tail.nodes)
    graph.initializer.extend(tail.constants)
    del graph.output[:]
    graph.output.append(float_value(FEATURES, BATCH, features))
    data = write(model)
    check(data, domains)
    return data

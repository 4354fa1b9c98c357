"""What leaves a device under STSA: statistics of its samples, and how they become bytes.

Tensors of the payload, for C classes (sorted by name) and M features:

    counts         int64 (C,)               samples per class
    correlation    packed integers (C, M)   P^T, the sum of h per class
    gram           packed (M(M+1)/2,)       form exact: upper triangle of H^T H, row by row
    factor         packed (trapezoid,)      form compact: rounded R factor, row by row
    row_exponents  int8 (min(n, M),)        form compact: the step of each row

The metadata names the classes and, behind the Gaussian map, the steps of `gram` and `correlation`.
No sample, feature or file name is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from learning.numerics.compact import CompactFactor
from learning.numerics.exact_sum import ScaledIntegers
from learning.numerics.triangles import trapezoid_size, triangle_size
from methods.stsa.assignment import TRIANGLE_BITS, StsaAssignment
from schemas.bitpacking import PackedIntegers, packed_size, smallest_bits
from schemas.contributions import MAX_CLASSES
from schemas.errors import TensorError
from schemas.message import Message
from schemas.tensor_header import MAX_HEADER_BYTES
from schemas.tensors import PACKED, Expected, UpTo, encode_tensors, read_tensors
from schemas.values import ClassName

__all__ = ["LocalStatistics", "StsaAssignment", "decode_statistics", "encode_statistics"]


@dataclass(frozen=True, eq=False)
class LocalStatistics:
    """Statistics of one part: classes sorted by name, their counts (C,), P^T (C, M) and G."""

    class_names: tuple[ClassName, ...]
    counts: npt.NDArray[np.int64]
    correlation: ScaledIntegers
    gram: ScaledIntegers | CompactFactor

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    @property
    def samples_per_class(self) -> dict[ClassName, int]:
        """Number of samples by class name."""
        return dict(zip(self.class_names, self.counts.tolist(), strict=True))


class _Metadata(Message):
    kind: ClassVar[str] = "stsa-statistics"
    version: Literal[1] = 1
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_CLASSES)
    gram_exponent: int = Field(default=0, ge=-64, le=64)
    correlation_exponent: int = Field(default=0, ge=-64, le=64)


def encode_statistics(statistics: LocalStatistics) -> bytes:
    """Return the payload; `decode_statistics` gives back the same statistics."""
    tensors: dict[str, Any] = {
        "counts": statistics.counts,
        "correlation": _packed(statistics.correlation.values),
    }
    gram, exponent = statistics.gram, 0
    if isinstance(gram, CompactFactor):
        tensors |= {"factor": _packed(gram.values), "row_exponents": gram.exponents}
    else:
        tensors["gram"] = _packed(gram.values)
        exponent = gram.exponent
    metadata = _Metadata(
        class_names=statistics.class_names,
        gram_exponent=exponent,
        correlation_exponent=statistics.correlation.exponent,
    )
    return encode_tensors(tensors, metadata.model_dump())


def decode_statistics(data: bytes, assignment: StsaAssignment) -> LocalStatistics:
    """Return the statistics in a payload that was made under `assignment`.

    Sizes, shapes, types, names and steps are checked here; `coordinator.check` looks at the
    numbers. Raises `SchemaError` (`TensorError` for tensors) naming field, value and way out.
    """
    read = read_tensors(data, _expected(assignment), _limit(assignment))
    metadata = _Metadata.read(read.metadata)
    counts = read.tensors["counts"]
    _check_classes(metadata.class_names, counts, assignment)
    correlation = read.tensors["correlation"]
    if len(correlation) != len(counts):
        raise TensorError(f"correlation: {len(correlation)} rows for {len(counts)} classes")
    return LocalStatistics(
        metadata.class_names,
        counts,
        _scaled("correlation", correlation, metadata.correlation_exponent, assignment),
        _gram(read.tensors, metadata, assignment),
    )


def _packed(values: npt.NDArray[np.int64]) -> PackedIntegers:
    return PackedIntegers.pack(values, smallest_bits(values))


def _most_classes(assignment: StsaAssignment) -> int:
    """Every class of a part has a sample in it."""
    return min(MAX_CLASSES, assignment.settings.max_samples_per_part)


def _expected(assignment: StsaAssignment) -> dict[str, Expected]:
    columns, classes = assignment.columns, UpTo(_most_classes(assignment))
    expected = {
        "counts": Expected("int64", (classes,)),
        "correlation": Expected(PACKED, (classes, columns)),
    }
    if assignment.settings.form == "exact":
        return expected | {"gram": Expected(PACKED, (triangle_size(columns),))}
    return expected | {
        "factor": Expected(PACKED, (UpTo(triangle_size(columns)),)),
        "row_exponents": Expected("int8", (UpTo(columns),)),
    }


def _limit(assignment: StsaAssignment) -> int:
    """Return the most bytes that an honest payload can have."""
    columns, classes = assignment.columns, _most_classes(assignment)
    values = triangle_size(columns) + classes * columns
    return packed_size(values, TRIANGLE_BITS) + 8 * classes + columns + 2 * MAX_HEADER_BYTES


def _check_classes(
    names: tuple[ClassName, ...], counts: npt.NDArray[np.int64], assignment: StsaAssignment
) -> None:
    if list(names) != sorted(set(names)) or len(names) != len(counts):
        raise TensorError(
            f"class_names: {len(names)} names for {len(counts)} counts; give one per class, sorted"
        )
    unknown = sorted(set(names) - set(assignment.class_names)) if assignment.class_names else []
    if unknown:
        raise TensorError(f"class_names: {unknown[0]!r} was not assigned; name the class first")
    most = assignment.settings.max_samples_per_part
    if (counts < 1).any() or (counts > most).any() or int(counts.sum()) > most:
        raise TensorError(
            f"counts: {int(counts.min())} to {int(counts.max())} samples per class; give at least "
            f"1 of each and at most {most} together, or send several parts"
        )


def _scaled(
    name: str, values: npt.NDArray[np.int64], exponent: int, assignment: StsaAssignment
) -> ScaledIntegers:
    low, high = (0, 0) if assignment.integer else assignment.settings.gaussian_steps
    if not low <= exponent <= high:
        raise TensorError(f"{name}: steps of 2^{exponent}; give exponents from {low} to {high}")
    return ScaledIntegers(values, exponent)


def _gram(
    tensors: dict[str, npt.NDArray[Any]], metadata: _Metadata, assignment: StsaAssignment
) -> ScaledIntegers | CompactFactor:
    if assignment.settings.form == "exact":
        return _scaled("gram", tensors["gram"], metadata.gram_exponent, assignment)
    rows = min(int(tensors["counts"].sum()), assignment.columns)
    values, exponents = tensors["factor"], tensors["row_exponents"]
    size = trapezoid_size(rows, assignment.columns)
    if len(exponents) != rows or len(values) != size:
        raise TensorError(
            f"factor: {len(values)} values in {len(exponents)} rows; "
            f"{int(tensors['counts'].sum())} samples need {size} in {rows}"
        )
    return CompactFactor(values, exponents, assignment.columns)

"""What leaves a device under Fed3R: the Gram matrix of its features, and class sums and counts.

Tensors of the payload, for C classes (sorted by name) and M features:

    counts   int64 (C,)                 samples per class
    sums     packed integers (C, M)     the sum of h per class, which is the transpose of H^T Y
    gram     packed (M(M+1)/2,)         upper triangle of H^T H, row by row

The metadata names the classes. No sample, feature or file name is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.learning.numerics.triangles import triangle_size
from fleetledger.methods.fed3r.settings import Fed3rSettings
from fleetledger.methods.fed3r.steps import Statistics
from fleetledger.methods.statistics.assignment import FeatureAssignment
from fleetledger.methods.statistics.class_counts import check_classes, most_classes
from fleetledger.methods.statistics.class_sums import ClassSums
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.bitpacking import PackedIntegers, smallest_bits
from fleetledger.schemas.contributions import MAX_CLASSES, MAX_PAYLOAD_BYTES
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.message import Message
from fleetledger.schemas.tensor_header import MAX_HEADER_BYTES
from fleetledger.schemas.tensors import PACKED, Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]

MAX_FEATURES = 16_384
"""A triangle of this width stays below the largest payload, 1 GiB."""


class Fed3rAssignment(FeatureAssignment[Fed3rSettings]):
    """Settings, and the width of the backbone's features; the same for all devices."""

    kind: ClassVar[str] = "fed3r-assignment"
    steps_type: ClassVar[type[Statistics]] = Statistics

    @model_validator(mode="after")
    def _a_triangle_can_be_sent(self) -> Self:
        if self.feature_width > MAX_FEATURES:
            raise ValueError(
                f"feature_width: {self.feature_width}; a Gram matrix is sent for at most "
                f"{MAX_FEATURES} features, so take a method that sends class sums alone"
            )
        return self

    @property
    def steps(self) -> Statistics:
        """What a method of one's own may change, by these settings."""
        return self.steps_type.of(self.settings)


@dataclass(frozen=True, eq=False)
class LocalStatistics:
    """Statistics of one part: class sums, and the triangle of G (M(M+1)/2,)."""

    classes: ClassSums
    gram: Integers

    @property
    def samples_per_class(self) -> dict[ClassName, int]:
        """Number of samples by class name."""
        return self.classes.samples_per_class


class _Metadata(Message):
    kind: ClassVar[str] = "fed3r-statistics"
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_CLASSES)


def encode_statistics(statistics: LocalStatistics) -> bytes:
    """Return the payload; `decode_statistics` gives back the same statistics."""
    tensors: dict[str, Any] = {
        "counts": statistics.classes.counts,
        "sums": _packed(statistics.classes.sums),
        "gram": _packed(statistics.gram),
    }
    metadata = _Metadata(class_names=statistics.classes.class_names)
    return encode_tensors(tensors, metadata.model_dump())


def decode_statistics(payload: bytes, assignment: Fed3rAssignment) -> LocalStatistics:
    """Return the statistics in a payload that was made under `assignment`.

    Raises `SchemaError` (`TensorError` for tensors) naming field, value and way out.
    """
    classes, columns = most_classes(assignment), assignment.columns
    triangle = triangle_size(columns)
    expected = {
        "counts": Expected("int64", (UpTo(classes),)),
        "sums": Expected(PACKED, (UpTo(classes), columns)),
        "gram": Expected(PACKED, (triangle,)),
    }
    most = 8 * (classes * (columns + 1) + triangle) + 2 * MAX_HEADER_BYTES
    read = read_tensors(payload, expected, min(most, MAX_PAYLOAD_BYTES))
    names = _Metadata.read(read.metadata).class_names
    counts, sums = read.tensors["counts"], read.tensors["sums"]
    check_classes(names, counts, assignment)
    if len(sums) != len(counts):
        raise TensorError(
            f"sums: {count_of(len(sums), 'row')} for {len(counts)} counts; give one each"
        )
    return LocalStatistics(ClassSums(names, counts, sums), read.tensors["gram"])


def _packed(values: Integers) -> PackedIntegers:
    return PackedIntegers.pack(values, smallest_bits(values))

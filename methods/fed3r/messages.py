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
from fleetledger.methods.statistics.words import IntegerMoments
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.bitpacking import PackedIntegers, smallest_bits
from fleetledger.schemas.cohorts import MOST_MEMBERS
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
    takes_noise: ClassVar[bool] = True
    steps_type: ClassVar[type[Statistics]] = Statistics

    @model_validator(mode="after")
    def _a_triangle_can_be_sent(self) -> Self:
        if self.feature_width > MAX_FEATURES:
            raise ValueError(
                f"feature_width: {self.feature_width}; a Gram matrix is sent for at most "
                f"{MAX_FEATURES} features, so take a method that sends class sums alone"
            )
        return self

    def masked_form(self) -> None:
        """Return None: there is one form, and its sums are integers."""

    @property
    def steps(self) -> Statistics:
        """What a method of one's own may change, by these settings."""
        return self.steps_type.of(self.settings)


@dataclass(frozen=True, eq=False)
class LocalStatistics:
    """Statistics of one part: class sums, and the triangle of G (M(M+1)/2,)."""

    classes: ClassSums
    gram: Integers
    members: int = 0
    """Members of the cohort whose sum it is; 0 for the part of one device."""

    @classmethod
    def of_moments(cls, moments: IntegerMoments, members: int) -> Self:
        """Return the statistics of a cohort's sum."""
        classes = ClassSums(moments.class_names, moments.counts, moments.sums)
        return cls(classes, moments.gram, members)

    def moments(self) -> IntegerMoments:
        """Return what is summed behind masks."""
        told = self.classes
        return IntegerMoments(told.class_names, told.counts, told.sums, self.gram)

    @property
    def samples_per_class(self) -> dict[ClassName, int]:
        """Number of samples by class name."""
        return self.classes.samples_per_class


class _Metadata(Message):
    kind: ClassVar[str] = "fed3r-statistics"
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_CLASSES)
    members: int = Field(default=0, ge=0, le=MOST_MEMBERS)


def encode_statistics(statistics: LocalStatistics) -> bytes:
    """Return the payload; `decode_statistics` gives back the same statistics."""
    tensors: dict[str, Any] = {
        "counts": statistics.classes.counts,
        "sums": _packed(statistics.classes.sums),
        "gram": _packed(statistics.gram),
    }
    members, names = statistics.members, statistics.classes.class_names
    metadata = _Metadata(class_names=names, members=members)
    unsaid = set() if members else {"members"}
    return encode_tensors(tensors, metadata.model_dump(exclude=unsaid))


def decode_statistics(
    payload: bytes, assignment: Fed3rAssignment, *, most_members: int = 0
) -> LocalStatistics:
    """Return the statistics in a payload that was made under `assignment`.

    It may be the sum of a cohort of at most `most_members`; of 0 it is the part of a device.
    Raises `SchemaError` (`TensorError` for tensors) naming field, value and way out.
    """
    classes, columns = most_classes(assignment, max(1, most_members)), assignment.columns
    triangle = triangle_size(columns)
    expected = {
        "counts": Expected("int64", (UpTo(classes),)),
        "sums": Expected(PACKED, (UpTo(classes), columns)),
        "gram": Expected(PACKED, (triangle,)),
    }
    most = 8 * (classes * (columns + 1) + triangle) + 2 * MAX_HEADER_BYTES
    read = read_tensors(payload, expected, min(most, MAX_PAYLOAD_BYTES))
    metadata = read.header.read(_Metadata)
    names, members = metadata.class_names, metadata.members
    if members > most_members:
        raise TensorError(f"members: {members}; a device gives its own part, so leave it out")
    counts, sums = read.tensors["counts"], read.tensors["sums"]
    check_classes(names, counts, assignment, members)
    if len(sums) != len(counts):
        raise TensorError(
            f"sums: {count_of(len(sums), 'row')} for {len(counts)} counts; give one each"
        )
    return LocalStatistics(ClassSums(names, counts, sums), read.tensors["gram"], members)


def _packed(values: Integers) -> PackedIntegers:
    return PackedIntegers.pack(values, smallest_bits(values))

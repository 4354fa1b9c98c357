"""What leaves a device under the pooled head: features of samples, or moments of classes.

Tensors of the payload, for n samples of C classes (sorted by name) and M features h:

    publish = "features"                          publish = "moments"
    counts    int64 (C,)   samples per class      counts   int64 (C,)              the same
    features  int8 (n, M)  h of every sample      sums     packed integers (C, M)  sum of h
                                                  squares  packed integers (C, M)  sum of h^2

Features lie class after class, those of a class in the order of their bytes: neither the device's
order nor its names of files can be told from them. The metadata names the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.methods.pooled.rows import Features
from fleetledger.methods.pooled.settings import PooledSettings
from fleetledger.methods.statistics.assignment import FeatureAssignment
from fleetledger.methods.statistics.class_counts import check_classes, most_classes
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.bitpacking import PackedIntegers, smallest_bits
from fleetledger.schemas.contributions import MAX_CLASSES, MAX_PAYLOAD_BYTES
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.message import Message
from fleetledger.schemas.tensor_header import MAX_HEADER_BYTES
from fleetledger.schemas.tensors import PACKED, Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]


class PooledAssignment(FeatureAssignment[PooledSettings]):
    """Settings, and the width of the backbone's features; the same for all devices."""

    kind: ClassVar[str] = "pooled-assignment"

    @model_validator(mode="after")
    def _a_part_fits_a_payload(self) -> Self:
        most = MAX_PAYLOAD_BYTES // 2 // self.columns
        if self.settings.publish == "features" and self.settings.max_samples_per_part > most:
            raise ValueError(
                f"max_samples_per_part: {self.settings.max_samples_per_part} of width "
                f"{self.columns} do not fit a payload; set it to {most} or less"
            )
        return self


@dataclass(frozen=True, eq=False)
class _Counted:
    """Samples (C,) of the classes of one part, which are sorted by name."""

    class_names: tuple[ClassName, ...]
    counts: Integers

    @property
    def samples_per_class(self) -> dict[ClassName, int]:
        """Number of samples by class name."""
        return dict(zip(self.class_names, self.counts.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class ClassFeatures(_Counted):
    """Features h (n, M) of every sample, class after class."""

    features: Features

    @property
    def by_class(self) -> dict[ClassName, Features]:
        """The rows of each class."""
        parts = np.split(self.features, np.cumsum(self.counts)[:-1])
        return dict(zip(self.class_names, parts, strict=True))


@dataclass(frozen=True, eq=False)
class ClassMoments(_Counted):
    """Sums of h and of h^2, both (C, M)."""

    sums: Integers
    squares: Integers


Published = ClassFeatures | ClassMoments


class _Metadata(Message):
    kind: ClassVar[str] = "pooled-features"
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_CLASSES)


def encode_published(part: Published) -> bytes:
    """Return the payload; `decode_published` gives back the same."""
    metadata = _Metadata(class_names=part.class_names).model_dump()
    if isinstance(part, ClassFeatures):
        return encode_tensors({"counts": part.counts, "features": part.features}, metadata)
    packed = {
        "sums": PackedIntegers.pack(part.sums, smallest_bits(part.sums)),
        "squares": PackedIntegers.pack(part.squares, smallest_bits(part.squares)),
    }
    return encode_tensors({"counts": part.counts, **packed}, metadata)


def decode_published(payload: bytes, assignment: PooledAssignment) -> Published:
    """Return what a payload holds that was made under `assignment`.

    Raises `SchemaError` (`TensorError` for tensors) naming field, value and way out.
    """
    classes, columns = UpTo(most_classes(assignment)), assignment.columns
    counts = {"counts": Expected("int64", (classes,))}
    if assignment.settings.publish == "features":
        rows = UpTo(assignment.settings.max_samples_per_part)
        expected = {**counts, "features": Expected("int8", (rows, columns))}
        largest = rows.limit * columns
    else:
        packed = Expected(PACKED, (classes, columns))
        expected = {**counts, "sums": packed, "squares": packed}
        largest = 2 * 8 * classes.limit * columns
    limit = min(8 * classes.limit + largest + 2 * MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES)
    read = read_tensors(payload, expected, limit)
    names, tensors = read.header.read(_Metadata).class_names, read.tensors
    check_classes(names, tensors["counts"], assignment)
    if assignment.settings.publish == "features":
        return _features(ClassFeatures(names, tensors["counts"], tensors["features"]))
    return _moments(ClassMoments(names, tensors["counts"], tensors["sums"], tensors["squares"]))


def _features(part: ClassFeatures) -> ClassFeatures:
    if len(part.features) != part.counts.sum():
        raise TensorError(
            f"features: {count_of(len(part.features), 'row')} for counts of {part.counts.sum()}; "
            "give one each"
        )
    return part


def _moments(part: ClassMoments) -> ClassMoments:
    for name, rows in (("sums", part.sums), ("squares", part.squares)):
        if len(rows) != len(part.counts):
            raise TensorError(f"{name}: {count_of(len(rows), 'row')} for {len(part.counts)} counts")
    return part

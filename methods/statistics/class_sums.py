"""A contribution that is a sum of features and a count for each class, and nothing else.

Features h are the backbone's own, brought to integers from -127 to 127 (`FeatureMap` "none").
Tensors of the payload, for C classes (sorted by name) and M features:

    counts   int64 (C,)               samples per class
    sums     packed integers (C, M)   the sum of h per class

The metadata names the classes. No sample, feature or file name is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.gram import check_integers, class_sums
from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.statistics.class_counts import check_classes, most_classes
from fleetledger.methods.statistics.labels import check_samples, count_classes, index_classes
from fleetledger.methods.statistics.part import NO_CONTEXT, PartContext
from fleetledger.methods.statistics.sides import (
    Assignment,
    Features,
    MadeContribution,
    StatisticsAssignment,
    StatisticsDevice,
)
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.bitpacking import PackedIntegers, smallest_bits
from fleetledger.schemas.contributions import MAX_CLASSES, MAX_PAYLOAD_BYTES
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.message import Message
from fleetledger.schemas.tensor_header import MAX_HEADER_BYTES
from fleetledger.schemas.tensors import PACKED, Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Counts (C,) and sums of h (C, M) of one part's classes, which are sorted by name."""

    class_names: tuple[ClassName, ...]
    counts: Integers
    sums: Integers

    @property
    def samples_per_class(self) -> dict[ClassName, int]:
        """Number of samples by class name."""
        return dict(zip(self.class_names, self.counts.tolist(), strict=True))


class _Metadata(Message):
    kind: ClassVar[str] = "class-sums"
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_CLASSES)


class SumsDevice(StatisticsDevice[Assignment]):
    """The device side of methods that need nothing but class sums; they name their assignment."""

    def finish(
        self,
        assignment: Assignment,
        features: Features,
        labels: Sequence[str],
        context: PartContext = NO_CONTEXT,
    ) -> MadeContribution:
        """Return the contribution of `features` h (n, M) with one class name per sample.

        Raises `MethodError` naming what is wrong: another shape, values that are no features, a
        label that was not assigned, a class with too few samples, a form that there is not.
        """
        refuse_forms(context)
        _, part = sum_classes(assignment, features, labels)
        return MadeContribution.of(encode_sums(part), part.samples_per_class)


def checked_samples(
    assignment: StatisticsAssignment, features: Features, labels: Sequence[str]
) -> tuple[npt.NDArray[np.float32], tuple[ClassName, ...], Integers, Integers]:
    """Return the features h (n, M), the classes, the class (n,) of each sample, and counts (C,).

    Raises `MethodError` as `SumsDevice.finish` tells.
    """
    check_samples(assignment, features, labels)
    names, classes = index_classes(assignment, labels)
    counts = count_classes(assignment, names, classes)
    try:
        h = check_integers(features, -QUANTISED_LARGEST, QUANTISED_LARGEST)
    except LearningError as error:
        raise MethodError(str(error)) from error
    return h, names, classes, counts


def sum_classes(
    assignment: StatisticsAssignment, features: Features, labels: Sequence[str]
) -> tuple[npt.NDArray[np.float32], ClassSums]:
    """Return the features h (n, M) as they were checked, and the sums of their classes.

    Raises `MethodError` as `SumsDevice.finish` tells.
    """
    h, names, classes, counts = checked_samples(assignment, features, labels)
    return h, ClassSums(names, counts, class_sums(h, classes, len(names)))


def refuse_forms(context: PartContext) -> None:
    """Raise `MethodError` where the owner asks for a form: there is only one, without a name."""
    if context.form is not None:
        raise MethodError(
            f"form: {context.form!r}, but this fleet's method has one form only; leave it out"
        )


def encode_sums(part: ClassSums) -> bytes:
    """Return the payload; `check_sums` gives back the same sums."""
    packed = PackedIntegers.pack(part.sums, smallest_bits(part.sums))
    metadata = _Metadata(class_names=part.class_names)
    return encode_tensors({"counts": part.counts, "sums": packed}, metadata.model_dump())


def check_sums(assignment: StatisticsAssignment, payload: bytes) -> ClassSums:
    """Return the sums in a payload; raise `ContributionError` unless samples can have them."""
    try:
        part = _decoded(assignment, payload)
    except SchemaError as error:
        raise ContributionError(str(error)) from error
    check_size_of_sums("sums", part.class_names, part.counts, part.sums)
    return part


def check_size_of_sums(
    field: str, names: Sequence[ClassName], counts: Integers, sums: Integers
) -> None:
    """Raise `ContributionError` unless `counts` (C,) features can have `sums` (C, M)."""
    most = counts[:, np.newaxis] * QUANTISED_LARGEST
    bad = np.abs(sums) > most
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ContributionError(
            f"{field}: {sums[row, column]} for feature {column} of class {names[row]!r}; "
            f"{counts[row]} samples give at most {most[row, 0]}"
        )


def _decoded(assignment: StatisticsAssignment, payload: bytes) -> ClassSums:
    classes, columns = most_classes(assignment), assignment.columns
    expected = {
        "counts": Expected("int64", (UpTo(classes),)),
        "sums": Expected(PACKED, (UpTo(classes), columns)),
    }
    limit = min(8 * classes * (columns + 1) + 2 * MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES)
    read = read_tensors(payload, expected, limit)
    names = read.header.read(_Metadata).class_names
    counts, sums = read.tensors["counts"], read.tensors["sums"]
    check_classes(names, counts, assignment)
    if len(sums) != len(counts):
        raise TensorError(
            f"sums: {count_of(len(sums), 'row')} for {len(counts)} counts; give one each"
        )
    return ClassSums(names, counts, sums)

"""What leaves a device under STSA: statistics of its samples, and how they become bytes.

Tensors of the payload, for C classes (sorted by name) and M features:

    form exact and compact
    counts            int64 (C,)              samples per class
    correlation       packed integers (C, M)  P^T, the sum of h per class
    gram              packed (M(M+1)/2,)      exact: upper triangle of H^T H, row by row
    factor            packed (trapezoid,)     compact: rounded R factor of the scatter within
                                              classes, row by row
    row_exponents     int8 (min(n - C, M),)   compact: the step of each row

    form estimated, for R rows: one per group and class that has samples in it
    groups_per_class  int64 (C,)              rows of each class, which lie together
    group_counts      int64 (R,)              samples per row
    group_sums        packed (R, M)           the sum of h per row
    row_groups        int64 (R,)              the group of each row, where empty groups count

The metadata names the form, the classes, the number of groups and, behind the Gaussian map, the
steps of the sums; where empty groups count, also a number that all parts of the device in a stage
have, so that these can be counted once. No sample, feature or file name is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fleetledger.learning.numerics.compact import CompactFactor
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.triangles import trapezoid_size
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.class_counts import check_classes
from fleetledger.methods.statistics.words import IntegerMoments
from fleetledger.methods.stsa.assignment import StsaAssignment
from fleetledger.methods.stsa.group_sums import DEALER_DIGITS, GroupSums
from fleetledger.methods.stsa.payload_rules import expected_tensors, payload_limit
from fleetledger.methods.stsa.settings import Form
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.bitpacking import PackedIntegers, smallest_bits
from fleetledger.schemas.cohorts import MOST_MEMBERS
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.message import Message
from fleetledger.schemas.tensor_header import read_header
from fleetledger.schemas.tensors import encode_tensors, plain_body, tensors_of
from fleetledger.schemas.values import ClassName

__all__ = ["LocalStatistics", "StsaAssignment", "decode_statistics", "encode_statistics"]

Integers = npt.NDArray[np.int64]
Tensors = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class LocalStatistics:
    """Statistics of one part: classes sorted by name, their counts (C,), P^T (C, M) and G.

    `gram` is the Gram matrix's triangle, its rounded R factor, or what it is estimated from.
    """

    class_names: tuple[ClassName, ...]
    counts: Integers
    correlation: ScaledIntegers
    gram: ScaledIntegers | CompactFactor | GroupSums
    members: int = 0
    """Members of the cohort whose sum it is; 0 for the part of one device."""

    @classmethod
    def of_groups(cls, class_names: tuple[ClassName, ...], groups: GroupSums) -> LocalStatistics:
        """Return the statistics whose counts and P^T are the sums of the groups' rows."""
        return cls(class_names, groups.class_counts(), groups.class_sums(), groups)

    @classmethod
    def of_moments(cls, moments: IntegerMoments, members: int) -> LocalStatistics:
        """Return the statistics of a cohort's sum."""
        sums, gram = ScaledIntegers(moments.sums), ScaledIntegers(moments.gram)
        return cls(moments.class_names, moments.counts, sums, gram, members)

    def moments(self) -> IntegerMoments:
        """Return what is summed behind masks; raise `MethodError` for another form."""
        if not isinstance(self.gram, ScaledIntegers) or self.gram.exponent:
            raise MethodError(
                f"form: {self.form!r} is not summed behind masks; give the form 'exact'"
            )
        return IntegerMoments(
            self.class_names, self.counts, self.correlation.values, self.gram.values
        )

    @property
    def form(self) -> Form:
        """The form in which the Gram matrix is told."""
        if isinstance(self.gram, GroupSums):
            return "estimated"
        return "compact" if isinstance(self.gram, CompactFactor) else "exact"

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
    form: Form
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_CLASSES)
    gram_exponent: int = Field(default=0, ge=-64, le=64)
    correlation_exponent: int = Field(default=0, ge=-64, le=64)
    groups: int = Field(default=0, ge=0, le=1_000_000)
    dealer: str = Field(default="", pattern=rf"^([0-9a-f]{{{DEALER_DIGITS}}})?$")
    members: int = Field(default=0, ge=0, le=MOST_MEMBERS)


def encode_statistics(statistics: LocalStatistics) -> bytes:
    """Return the payload; `decode_statistics` gives back the same statistics."""
    gram = statistics.gram
    told: dict[str, Any] = {"correlation_exponent": statistics.correlation.exponent}
    if isinstance(gram, GroupSums):
        tensors: dict[str, Any] = {
            "groups_per_class": gram.per_class,
            "group_counts": gram.counts,
            "group_sums": _packed(gram.sums.values),
        }
        told["groups"] = gram.groups
        if gram.row_groups is not None:
            told["dealer"] = gram.dealer
            tensors["row_groups"] = gram.row_groups
    else:
        tensors = {
            "counts": statistics.counts,
            "correlation": _packed(statistics.correlation.values),
        }
    if isinstance(gram, CompactFactor):
        tensors |= {"factor": _packed(gram.values), "row_exponents": gram.exponents}
    elif isinstance(gram, ScaledIntegers):
        tensors["gram"] = _packed(gram.values)
        told["gram_exponent"] = gram.exponent
    told |= {"members": statistics.members, "class_names": statistics.class_names}
    metadata = _Metadata(form=statistics.form, **told)
    unsaid = {name for name in ("dealer", "members") if not getattr(metadata, name)}
    return encode_tensors(tensors, metadata.model_dump(exclude=unsaid))


def decode_statistics(
    data: bytes, assignment: StsaAssignment, *, most_members: int = 0
) -> LocalStatistics:
    """Return the statistics in a payload that was made under `assignment`.

    It may be the sum of a cohort of at most `most_members`; of 0 it is the part of a device.

    Sizes, shapes, types, names and steps are checked here; `coordinator.check` looks at the
    numbers. Raises `SchemaError` (`TensorError` for tensors) naming field, value and way out, and
    `RangeError` for groups whose total leaves int64.
    """
    body = plain_body(data, payload_limit(assignment, max(1, most_members)))
    header = read_header(body)
    metadata = header.read(_Metadata)
    members = metadata.members
    if members > most_members:
        raise TensorError(f"members: {members}; a device gives its own part, so leave it out")
    expected = expected_tensors(
        metadata.form, assignment, dealt=bool(metadata.dealer), members=max(1, members)
    )
    tensors = tensors_of(body, header, expected)
    if metadata.form == "estimated":
        groups = _groups(tensors, metadata, assignment)
        statistics = LocalStatistics.of_groups(metadata.class_names, groups)
        check_classes(metadata.class_names, statistics.counts, assignment)
        return statistics
    counts, correlation = tensors["counts"], tensors["correlation"]
    check_classes(metadata.class_names, counts, assignment, metadata.members)
    if len(correlation) != len(counts):
        raise TensorError(
            f"correlation: {count_of(len(correlation), 'row')} for "
            f"{count_of(len(counts), 'class', 'classes')}"
        )
    return LocalStatistics(
        metadata.class_names,
        counts,
        _scaled("correlation", correlation, metadata.correlation_exponent, assignment),
        _gram(tensors, metadata, assignment),
        metadata.members,
    )


def _packed(values: Integers) -> PackedIntegers:
    return PackedIntegers.pack(values, smallest_bits(values))


def _scaled(
    name: str, values: Integers, exponent: int, assignment: StsaAssignment
) -> ScaledIntegers:
    low, high = (0, 0) if assignment.integer else assignment.settings.gaussian_steps
    if not low <= exponent <= high:
        raise TensorError(f"{name}: steps of 2^{exponent}; give exponents from {low} to {high}")
    return ScaledIntegers(values, exponent)


def _gram(
    tensors: Tensors, metadata: _Metadata, assignment: StsaAssignment
) -> ScaledIntegers | CompactFactor:
    if metadata.form == "exact":
        return _scaled("gram", tensors["gram"], metadata.gram_exponent, assignment)
    counts = tensors["counts"]
    rows = min(int(counts.sum()) - len(counts), assignment.columns)
    values, exponents = tensors["factor"], tensors["row_exponents"]
    size = trapezoid_size(rows, assignment.columns)
    if len(exponents) != rows or len(values) != size:
        raise TensorError(
            f"factor: {count_of(len(values), 'value')} in {count_of(len(exponents), 'row')}; "
            f"{count_of(int(counts.sum()), 'sample')} of {len(counts)} classes need {size} in "
            f"{rows}"
        )
    return CompactFactor(values, exponents, assignment.columns)


def _groups(tensors: Tensors, metadata: _Metadata, assignment: StsaAssignment) -> GroupSums:
    per_class, counts = tensors["groups_per_class"], tensors["group_counts"]
    groups, most = metadata.groups, assignment.settings.groups
    if not 1 <= groups <= most:
        raise TensorError(f"groups: {groups}; give 1 to {most}")
    if len(per_class) != len(metadata.class_names):
        raise TensorError(
            f"groups_per_class: {len(per_class)} for "
            f"{count_of(len(metadata.class_names), 'class name')}"
        )
    if (per_class < 1).any() or (per_class > groups).any():
        raise TensorError(
            f"groups_per_class: {per_class.min()} to {per_class.max()}; give 1 to {groups}"
        )
    sums = _scaled("group_sums", tensors["group_sums"], metadata.correlation_exponent, assignment)
    if not len(counts) == len(sums.values) == int(per_class.sum()):
        raise TensorError(
            f"group_counts: {len(counts)} counts and {count_of(len(sums.values), 'sum')} for "
            f"{count_of(int(per_class.sum()), 'row')}; give one of each"
        )
    settings = assignment.settings
    least, limit = settings.min_samples_per_class, settings.max_samples_per_part
    if (counts < least).any() or (counts > limit).any():
        raise TensorError(
            f"group_counts: {counts.min()} to {counts.max()}; give {least} to "
            f"{count_of(limit, 'sample')}"
        )
    row_groups = tensors.get("row_groups")
    if row_groups is not None:
        _check_row_groups(row_groups, per_class, groups)
    return GroupSums(per_class, counts, sums, groups, metadata.dealer, row_groups)


def _check_row_groups(row_groups: Integers, per_class: Integers, groups: int) -> None:
    """Raise `TensorError` unless each class's rows are of groups that there are, each once."""
    cells = np.repeat(np.arange(len(per_class)), per_class) * groups + row_groups
    inside = (row_groups >= 0).all() and (row_groups < groups).all()
    if not inside or (np.diff(cells) <= 0).any():
        raise TensorError(
            f"row_groups: give each class's groups once, in order, from 0 to {groups - 1}"
        )

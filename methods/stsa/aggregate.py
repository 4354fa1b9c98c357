"""The fleet's statistics: exact sums that parts can be added to and taken out of.

    Aggregate.of + Aggregate.of ...   G^t = sum_k G_k^t, P^t = sum_k P_k^t  equations (2) and (4)

Addition is associative and commutative, subtraction undoes it, bit for bit. Everything is held in
steps that the settings fix, so the digest depends on the data alone: not on the order of parts,
their division over devices (form exact) or the steps that each of them chose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from learning.errors import LearningError
from learning.numerics.compact import CompactFactor, factor_gram
from learning.numerics.exact_sum import ScaledIntegers
from learning.numerics.triangles import triangle_size
from methods.errors import MethodError
from methods.stsa.messages import LocalStatistics, StsaAssignment
from schemas.canonical import canonical_json
from schemas.values import ClassName, Digest


@dataclass(frozen=True, eq=False)
class ClassTotal:
    """Sum of h over a class's samples (M,) and their number."""

    correlation: ScaledIntegers
    count: int

    def plus(self, other: ClassTotal) -> ClassTotal:
        """Return the totals of both together."""
        return ClassTotal(self.correlation + other.correlation, self.count + other.count)

    def negated(self) -> ClassTotal:
        """Return the totals that take these out when they are added."""
        return ClassTotal(-self.correlation, -self.count)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Sums over contributions: Gram triangle (M(M+1)/2,) and totals of the classes with samples."""

    columns: int
    gram: ScaledIntegers
    classes: Mapping[ClassName, ClassTotal]

    @classmethod
    def empty(cls, assignment: StsaAssignment) -> Self:
        """Return the aggregate of no data."""
        zeros = np.zeros(triangle_size(assignment.columns), np.int64)
        return cls(assignment.columns, ScaledIntegers(zeros, assignment.gram_exponent), {})

    @classmethod
    def of(cls, assignment: StsaAssignment, statistics: LocalStatistics) -> Self:
        """Return the aggregate of one contribution.

        Raises `MethodError` when the statistics do not fit the assignment.
        """
        try:
            gram = _gram(assignment, statistics).at(assignment.gram_exponent)
            correlation = statistics.correlation.at(assignment.correlation_exponent)
        except LearningError as error:
            raise MethodError(str(error)) from error
        totals = {
            name: ClassTotal(ScaledIntegers(row, correlation.exponent), int(count))
            for name, row, count in zip(
                statistics.class_names, correlation.values, statistics.counts, strict=True
            )
        }
        return cls(assignment.columns, gram, totals)

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return {name: self.classes[name].count for name in sorted(self.classes)}

    def __add__(self, other: Aggregate) -> Aggregate:
        """Return the aggregate of both data; raise `MethodError` if they do not fit together."""
        return self._combined(other, other.classes)

    def __sub__(self, other: Aggregate) -> Aggregate:
        """Return the aggregate without the other's data, as if it had never been added.

        Raises `MethodError` when the other holds data that was not added.
        """
        negated = {name: total.negated() for name, total in other.classes.items()}
        negative = Aggregate(other.columns, -other.gram, negated)
        return self._combined(negative, negated)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> Aggregate:
        """Return the aggregate with classes renamed by `names`, alias to name.

        Classes that get the same name are merged; those that `names` leaves out keep theirs.
        """
        classes: dict[ClassName, ClassTotal] = {}
        for alias, total in self.classes.items():
            _add_total(classes, names.get(alias, alias), total)
        return Aggregate(self.columns, self.gram, classes)

    def _combined(self, other: Aggregate, changes: Mapping[ClassName, ClassTotal]) -> Aggregate:
        if (self.columns, self.gram.exponent) != (other.columns, other.gram.exponent):
            raise MethodError(
                f"aggregate: {self.columns} features in steps of 2^{self.gram.exponent} and "
                f"{other.columns} in steps of 2^{other.gram.exponent} cannot be added; "
                "they belong to different lineages"
            )
        classes = dict(self.classes)
        try:
            for name, total in changes.items():
                _add_total(classes, name, total)
            return Aggregate(self.columns, self.gram + other.gram, classes)
        except LearningError as error:
            raise MethodError(str(error)) from error


def aggregate_digest(aggregate: Aggregate) -> Digest:
    """Return the SHA-256 of the aggregate's one form: classes by name, integers little-endian."""
    names = sorted(aggregate.classes)
    steps = {total.correlation.exponent for total in aggregate.classes.values()}
    header = {
        "form": "stsa-aggregate-1",
        "columns": aggregate.columns,
        "classes": aggregate.samples,
        "gram_exponent": aggregate.gram.exponent,
        "correlation_exponent": sorted(steps),
    }
    digest = hashlib.sha256(canonical_json(header) + b"\n")
    digest.update(_bytes(aggregate.gram))
    for name in names:
        digest.update(_bytes(aggregate.classes[name].correlation))
    return Digest(digest.hexdigest())


def _gram(assignment: StsaAssignment, statistics: LocalStatistics) -> ScaledIntegers:
    if isinstance(statistics.gram, CompactFactor):
        return factor_gram(statistics.gram, assignment.row_steps)
    return statistics.gram


def _add_total(classes: dict[ClassName, ClassTotal], name: ClassName, total: ClassTotal) -> None:
    """Add to a class's total; a class without samples left is taken out."""
    together = classes[name].plus(total) if name in classes else total
    if together.count < 0 or (together.count == 0 and together.correlation.largest > 0):
        raise MethodError(
            f"class {name!r}: what is taken out was not added; subtract whole contributions only"
        )
    classes[name] = together
    if together.count == 0:
        del classes[name]


def _bytes(numbers: ScaledIntegers) -> bytes:
    return numbers.values.astype("<i8", copy=False).tobytes()

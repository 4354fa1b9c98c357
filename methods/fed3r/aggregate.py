"""The fleet's statistics: exact sums that parts can be added to and taken out of.

    Aggregate.of + Aggregate.of ...   A = sum_k A_k, b = sum_k b_k

Addition is associative and commutative, subtraction undoes it, bit for bit. The digest is a
function of the samples alone: neither order nor division over devices changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.triangles import symmetric, triangle_size
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fed3r.messages import Fed3rAssignment, LocalStatistics
from fleetledger.methods.statistics.class_totals import ClassTotals, totals_digest
from fleetledger.schemas.values import ClassName, Digest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fed3rAggregate:
    """Sums over contributions: Gram triangle (M(M+1)/2,) and totals of the classes with samples."""

    gram: ScaledIntegers
    classes: ClassTotals

    @classmethod
    def empty(cls, assignment: Fed3rAssignment) -> Self:
        """Return the aggregate of no data."""
        zeros = np.zeros(triangle_size(assignment.columns), np.int64)
        return cls(ScaledIntegers(zeros), ClassTotals(assignment.columns))

    @classmethod
    def of(cls, assignment: Fed3rAssignment, statistics: LocalStatistics, stage: int) -> Self:
        """Return the aggregate of one contribution; the stage it was made in does not matter."""
        told = statistics.classes
        totals = ClassTotals.of_rows(told.class_names, ScaledIntegers(told.sums), told.counts)
        return cls(ScaledIntegers(statistics.gram), totals)

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return self.classes.samples

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the aggregate's one form: totals by name, then A's integers."""
        totals = totals_digest(self.classes, "fed3r-aggregate-1")
        digest = hashlib.sha256(totals.encode() + b"\n")
        digest.update(self.gram.values.astype("<i8", copy=False).tobytes())
        return Digest(digest.hexdigest())

    def __add__(self, other: Fed3rAggregate) -> Fed3rAggregate:
        """Return the aggregate of both data; raise `MethodError` if they do not fit together."""
        return _together(self.classes + other.classes, self.gram, other.gram)

    def __sub__(self, other: Fed3rAggregate) -> Fed3rAggregate:
        """Return the aggregate without the other's data, as if it had never been added.

        Raises `MethodError` when the other holds data that was not added.
        """
        return _together(self.classes - other.classes, self.gram, -other.gram)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> Fed3rAggregate:
        """Return the aggregate with classes renamed by `names`, alias to name.

        Classes that get the same name are merged; those that `names` leaves out keep theirs.
        """
        return Fed3rAggregate(self.gram, self.classes.renamed(names))

    def gram_matrix(self) -> Floats:
        """Return A (M x M, float64)."""
        return symmetric(self.gram.to_float(), self.classes.columns)


def _together(classes: ClassTotals, one: ScaledIntegers, other: ScaledIntegers) -> Fed3rAggregate:
    try:
        return Fed3rAggregate(one + other, classes)
    except LearningError as error:
        raise MethodError(str(error)) from error

"""The fleet's statistics: exact sums that parts can be added to and taken out of.

    Aggregate.of + Aggregate.of ...   G^t = sum_k G_k^t, P^t = sum_k P_k^t  equations (2) and (4)
    gram_matrix                       G~, with what is estimated from class sums  (9) and (10)

Addition is associative and commutative, subtraction undoes it, bit for bit. Everything is held in
steps that the settings fix, so the digest depends on the data alone: not on the order of parts,
their division over devices (form exact) or the steps that each of them chose. Parts of the
estimated form are kept beside the sum, because their estimate is no sum; forms can be mixed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.class_scatter import mean_rows
from fleetledger.learning.numerics.compact import CompactFactor, factor_gram
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.triangles import symmetric, triangle_size
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.class_totals import ClassTotals
from fleetledger.methods.stsa.group_sums import GroupSums
from fleetledger.methods.stsa.kept_groups import KeptGroups, KeptPart
from fleetledger.methods.stsa.messages import LocalStatistics, StsaAssignment
from fleetledger.methods.stsa.settings import StsaSettings
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName, Digest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StsaAggregate:
    """Sums over contributions: Gram triangle (M(M+1)/2,) and totals of the classes with samples.

    Contributions of the estimated form count in `classes` and are kept in `groups`; `gram` is the
    sum of the others.
    """

    gram: ScaledIntegers
    classes: ClassTotals
    groups: KeptGroups = field(default_factory=KeptGroups)

    @classmethod
    def empty(cls, assignment: StsaAssignment) -> Self:
        """Return the aggregate of no data."""
        zeros = np.zeros(triangle_size(assignment.columns), np.int64)
        gram = ScaledIntegers(zeros, assignment.gram_exponent)
        return cls(gram, ClassTotals(assignment.columns))

    @classmethod
    def of(cls, assignment: StsaAssignment, statistics: LocalStatistics, stage: int) -> Self:
        """Return the aggregate of one contribution, made in `stage`.

        Raises `MethodError` when the statistics do not fit the assignment.
        """
        try:
            gram = _gram(assignment, statistics)
            correlation = statistics.correlation.at(assignment.correlation_exponent)
        except LearningError as error:
            raise MethodError(str(error)) from error
        totals = ClassTotals.of_rows(statistics.class_names, correlation, statistics.counts)
        return cls(gram, totals, _kept(assignment, statistics, stage))

    @property
    def columns(self) -> int:
        """M, the number of features."""
        return self.classes.columns

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return self.classes.samples

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the aggregate's one form: classes by name, integers little-endian."""
        names = sorted(self.classes)
        steps = {total.correlation.exponent for total in self.classes.values()}
        header = {
            "form": "stsa-aggregate-1",
            "columns": self.columns,
            "classes": self.samples,
            "gram_exponent": self.gram.exponent,
            "correlation_exponent": sorted(steps),
        }
        if self.groups:
            header |= self.groups.described()
        digest = hashlib.sha256(canonical_json(header) + b"\n")
        digest.update(_bytes(self.gram))
        for name in names:
            digest.update(_bytes(self.classes[name].correlation))
        for row in self.groups.row_digests():
            digest.update(row)
        return Digest(digest.hexdigest())

    def __add__(self, other: StsaAggregate) -> StsaAggregate:
        """Return the aggregate of both data; raise `MethodError` if they do not fit together."""
        classes = self.classes + other.classes
        return StsaAggregate(self._gram_with(other.gram), classes, self.groups + other.groups)

    def __iadd__(self, other: StsaAggregate) -> Self:
        """Return the same in the memory of this one, which is not to be used any more.

        Raises as `+` does; then this one is as it was.
        """
        classes, groups = self.classes + other.classes, self.groups + other.groups
        self._check_gram(other.gram)
        try:
            self.gram.add(other.gram)
        except LearningError as error:
            raise MethodError(str(error)) from error
        return type(self)(self.gram, classes, groups)

    def __sub__(self, other: StsaAggregate) -> StsaAggregate:
        """Return the aggregate without the other's data, as if it had never been added.

        Raises `MethodError` when the other holds data that was not added.
        """
        classes = self.classes - other.classes
        return StsaAggregate(self._gram_with(-other.gram), classes, self.groups - other.groups)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> StsaAggregate:
        """Return the aggregate with classes renamed by `names`, alias to name.

        Classes that get the same name are merged; those that `names` leaves out keep theirs.
        """
        classes, groups = self.classes.renamed(names), self.groups.renamed(names)
        return StsaAggregate(self.gram, classes, groups)

    def gram_matrix(self, settings: StsaSettings) -> Floats:
        """Return G~ (M x M, float64): the exact sum and the estimate of what is kept in groups."""
        gram = symmetric(self.gram.to_float(), self.columns)
        return gram + self.groups.estimated_gram(self.columns, settings) if self.groups else gram

    def _gram_with(self, gram: ScaledIntegers) -> ScaledIntegers:
        self._check_gram(gram)
        try:
            return self.gram + gram
        except LearningError as error:
            raise MethodError(str(error)) from error

    def _check_gram(self, gram: ScaledIntegers) -> None:
        if (self.gram.values.shape, self.gram.exponent) != (gram.values.shape, gram.exponent):
            raise MethodError(
                f"aggregate: triangles of {count_of(len(self.gram.values), 'value')} in steps of "
                f"2^{self.gram.exponent} and of {len(gram.values)} in steps of 2^{gram.exponent} "
                "cannot be added; they belong to different lineages"
            )


def _gram(assignment: StsaAssignment, statistics: LocalStatistics) -> ScaledIntegers:
    """Return the Gram triangle in the fleet's steps; zeros where it is only to be estimated."""
    gram = statistics.gram
    if isinstance(gram, GroupSums):
        zeros = np.zeros(triangle_size(assignment.columns), np.int64)
        return ScaledIntegers(zeros, assignment.gram_exponent)
    if isinstance(gram, CompactFactor):
        steps = assignment.row_steps
        means = mean_rows(statistics.correlation.values, statistics.counts, steps.finest)
        gram = factor_gram(gram, steps, means)
    return gram.at(assignment.gram_exponent)


def _kept(assignment: StsaAssignment, statistics: LocalStatistics, stage: int) -> KeptGroups:
    groups = statistics.gram
    if not isinstance(groups, GroupSums):
        return KeptGroups()
    sums = groups.sums.at(assignment.correlation_exponent)
    part = KeptPart.of(stage, statistics.class_names, replace(groups, sums=sums))
    return KeptGroups.of(part)


def _bytes(numbers: ScaledIntegers) -> bytes:
    return numbers.values.astype("<i8", copy=False).tobytes()

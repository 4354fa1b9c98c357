"""Exact totals of classes, which parts can be added to and taken out of.

Addition is associative and commutative, and subtraction undoes it, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.methods.errors import MethodError
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName, Digest


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
class ClassTotals(Mapping[ClassName, ClassTotal]):
    """The total of every class that has samples, by name; sums are `columns` wide."""

    columns: int
    by_name: Mapping[ClassName, ClassTotal] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls, names: Sequence[ClassName], sums: ScaledIntegers, counts: npt.NDArray[np.int64]
    ) -> Self:
        """Return the totals of classes with sums of h (C, M) and counts (C,)."""
        rows = zip(names, sums.values, counts, strict=True)
        totals = {
            name: ClassTotal(ScaledIntegers(row, sums.exponent), int(count))
            for name, row, count in rows
        }
        return cls(sums.values.shape[1], totals)

    @property
    def overall(self) -> tuple[npt.NDArray[np.float64], int]:
        """The sum of h over the samples of all classes (M,), and their number."""
        totals = self.by_name.values()
        sums = (total.correlation.to_float() for total in totals)
        return sum(sums, np.zeros(self.columns)), sum(total.count for total in totals)

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return {name: self[name].count for name in sorted(self)}

    @property
    def largest(self) -> int:
        """The largest magnitude of the sums' integers."""
        return max((total.correlation.largest for total in self.values()), default=0)

    def rows(self) -> tuple[tuple[ClassName, ...], npt.NDArray[np.int64], ScaledIntegers]:
        """Return the names in order, their counts (C,) and their sums of h (C, M), at one step."""
        names = tuple(sorted(self))
        counts = np.array([self[name].count for name in names], np.int64)
        sums = np.empty((len(names), self.columns), np.int64)
        steps = {self[name].correlation.exponent for name in names} or {0}
        for row, name in enumerate(names):
            sums[row] = self[name].correlation.at(min(steps)).values
        return names, counts, ScaledIntegers(sums, min(steps))

    def columns_of(self, names: Sequence[ClassName]) -> npt.NDArray[np.float64]:
        """Return P (M, C) with a column for each of `names`, zeros for those without samples."""
        sums = np.zeros((self.columns, len(names)))
        for place, name in enumerate(names):
            if name in self:
                sums[:, place] = self[name].correlation.to_float()
        return sums

    def __add__(self, other: ClassTotals) -> Self:
        """Return the totals of both data; raise `MethodError` when they do not fit together."""
        return self._with(other)

    def __sub__(self, other: ClassTotals) -> Self:
        """Return the totals without the other's, as if they had never been added.

        Raises `MethodError` when the other holds data that was not added.
        """
        negated = {name: total.negated() for name, total in other.items()}
        return self._with(ClassTotals(other.columns, negated))

    def renamed(self, names: Mapping[ClassName, ClassName]) -> Self:
        """Return the totals with classes renamed by `names`, alias to name.

        Classes that get the same name are merged; those that `names` leaves out keep theirs.
        """
        totals: dict[ClassName, ClassTotal] = {}
        for alias, total in self.items():
            _add(totals, names.get(alias, alias), total)
        return type(self)(self.columns, totals)

    def _with(self, changes: ClassTotals) -> Self:
        if self.columns != changes.columns:
            raise MethodError(
                f"aggregate: sums of {self.columns} and of {changes.columns} features cannot be "
                "added; they belong to different lineages"
            )
        totals = dict(self.by_name)
        for name, total in changes.items():
            _add(totals, name, total)
        return type(self)(self.columns, totals)

    def __getitem__(self, name: ClassName) -> ClassTotal:
        return self.by_name[name]

    def __iter__(self) -> Iterator[ClassName]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)


def totals_digest(totals: ClassTotals, form: str) -> Digest:
    """Return the SHA-256 of the totals' one form: classes by name, integers little-endian.

    `form` names the method and the version of what is digested.
    """
    steps = sorted({total.correlation.exponent for total in totals.values()})
    header = {
        "form": form,
        "columns": totals.columns,
        "classes": totals.samples,
        "exponents": steps,
    }
    digest = hashlib.sha256(canonical_json(header) + b"\n")
    for name in totals.samples:
        digest.update(totals[name].correlation.values.astype("<i8", copy=False).tobytes())
    return Digest(digest.hexdigest())


def _add(totals: dict[ClassName, ClassTotal], name: ClassName, total: ClassTotal) -> None:
    """Add to a class's total; a class without samples left is taken out."""
    try:
        together = totals[name].plus(total) if name in totals else total
    except LearningError as error:
        raise MethodError(str(error)) from error
    if together.count < 0 or (together.count == 0 and together.correlation.largest > 0):
        raise MethodError(
            f"class {name!r}: what is taken out was not added; subtract whole contributions only"
        )
    totals[name] = together
    if together.count == 0:
        del totals[name]

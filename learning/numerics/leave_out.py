"""What leaving a device out does to the others, from moments alone.

A ridge model W = K^-1 P with K = sum G + lambda I is fitted to some devices. For device d of them
with G_d = F^T F and E = P_d - G_d W, leaving d out changes W by (Woodbury)

    -(Z + V (I - F V)^-1 F Z)          with V = K^-1 F^T and Z = K^-1 E

and adding one that was not inside changes it by Z - V (I + F V)^-1 F Z. How much that changes the
squared error of a judge e, whom W was not fitted to, is a sum over its columns c:

    l_ec(W + D) - l_ec(W) = 2 (G_e W - P_e)_c . D_c + |F_e D_c|^2

Nobody is judged by those whom W was fitted to: leaving anybody out helps these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.blocked_factor import BlockedFactor
from fleetledger.learning.numerics.gram_rows import gram_rows
from fleetledger.runtime.count_words import count_of

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_COLUMNS = 1024
"""Right sides that are solved, or changes that are judged, at once."""


@dataclass(frozen=True, eq=False)
class UnitMoments:
    """Moments of a device, or of any group that is judged as one.

    `rows` F (r x M) have F^T F = G; `sums` is P (M x C), `counts` (C,) the samples of each class.
    """

    rows: Floats
    sums: Floats
    counts: Integers

    def __post_init__(self) -> None:
        shape = (self.rows.shape[-1], len(self.counts))
        if self.rows.ndim != 2 or self.sums.shape != shape:
            raise FeatureError(
                f"moments: rows {self.rows.shape}, sums {self.sums.shape} and "
                f"{count_of(len(self.counts), 'count')}; give (r, M), (M, C) and (C,)"
            )

    @classmethod
    def of(cls, gram: Floats, sums: Floats, counts: Integers) -> UnitMoments:
        """Return those of a Gram matrix G (M x M)."""
        return cls(gram_rows(gram), sums, counts)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    def of_features(self, features: Integers) -> UnitMoments:
        """Return the moments of some of the features alone."""
        rows = self.rows[:, features]
        if len(rows) > len(features):
            rows = np.asarray(np.linalg.qr(rows, mode="r"))
        return UnitMoments(np.ascontiguousarray(rows), self.sums[features], self.counts)


@dataclass(frozen=True, eq=False)
class _Side:
    """Several units' rows below one another, and their sums."""

    units: Sequence[UnitMoments]

    @cached_property
    def rows(self) -> Floats:
        """F (sum of r x M)."""
        return np.concatenate([unit.rows for unit in self.units])

    @cached_property
    def starts(self) -> Integers:
        """First row of each unit, and the number of all rows."""
        return np.cumsum([0, *(len(unit.rows) for unit in self.units)])


class FittedModel:
    """The ridge model of some units; raises `SingularError` where it has no solution."""

    def __init__(self, inside: Sequence[UnitMoments], ridge: float) -> None:
        self._inside = inside
        rows = _Side(inside).rows
        self._factor = BlockedFactor(rows.T @ rows, ridge)
        self.weights = self._solved(np.asarray(sum(unit.sums for unit in inside)))

    def changes(self, added: Sequence[UnitMoments] = ()) -> Iterator[tuple[int, Floats]]:
        """Yield, for each unit inside and each added one, by how much W is another with it.

        Units are counted through, those that are added last. (M x C), with minus without.
        """
        units = (*self._inside, *added)
        for places in _groups([len(u.rows) + u.sums.shape[1] for u in units]):
            group = [units[place] for place in places]
            errors = [u.sums - u.rows.T @ (u.rows @ self.weights) for u in group]
            solved = self._solved(np.hstack([*(u.rows.T for u in group), *errors]))
            starts = _Side(group).starts
            for at, (place, unit) in enumerate(zip(places, group, strict=True)):
                own = solved[:, starts[at] : starts[at + 1]]
                wide = unit.sums.shape[1]
                error = solved[:, starts[-1] + at * wide : starts[-1] + (at + 1) * wide]
                sign = -1.0 if place < len(self._inside) else 1.0
                small = np.eye(len(unit.rows)) + sign * (unit.rows @ own)
                correction = own @ np.linalg.solve(small, unit.rows @ error)
                yield place, error - sign * correction

    def _solved(self, right: Floats) -> Floats:
        return self._factor.back(self._factor.forward(right))


class Judges:
    """Units that a model was not fitted to, and what changes of it do to them."""

    def __init__(self, units: Sequence[UnitMoments], weights: Floats) -> None:
        self._side = _Side(units)
        self._rows = self._side.rows.astype(
            np.float32
        )  # of a sum of squares, six digits are enough
        slopes = (2 * (u.rows.T @ (u.rows @ weights) - u.sums) for u in units)
        self._slopes = np.stack(list(slopes))
        self._samples = np.array([u.samples for u in units], np.float64)

    def harm(self, change: Floats, *, inside: bool) -> Floats:
        """Return how much worse a unit makes each judge's columns, per sample (judges x C).

        `change` is what `FittedModel.changes` yields, of a unit inside the model or an added one.
        """
        sign = -1.0 if inside else 1.0
        moved = np.square(self._rows @ change.astype(np.float32), dtype=np.float64)
        square = np.add.reduceat(moved, self._side.starts[:-1], axis=0)
        linear = np.einsum("ekc,kc->ec", self._slopes, change)
        return np.asarray((linear + sign * square) / self._samples[:, np.newaxis])


def _groups(columns: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of units in groups of so many columns that one solve serves them."""
    group: list[int] = []
    taken = 0
    for place, wide in enumerate(columns):
        if group and taken + wide > _COLUMNS:
            yield group
            group, taken = [], 0
        group.append(place)
        taken += wide
    if group:
        yield group

"""How far a unit's classes lie from those of the others, from class means alone.

For a unit's mean m of class c over n samples, the middle value M of all units' means (feature by
feature, a voice for each unit) and the scatter S within classes of all:

    u = |T^T (m - M)|^2 / (tr T^T S T  (1/n + 1.57 sum 1/n_e / h^2))        over h units e

with S + lambda I = L L^T and T = L^-T R, where R are random signs, so that |T^T x| stands for the
length of x where the scatter measures (Johnson and Lindenstrauss 1984). Chance alone gives u = 1:
a middle value varies by 1.57 times as much as a mean. A unit's figure is the mean of its u,
weighted by samples. Labels that are wrong, broken cameras and triggers move class means, whether or
not they harm anybody's model; so does an honest camera that sees another world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import SingularError
from fleetledger.learning.numerics.blocked_factor import BlockedFactor
from fleetledger.learning.numerics.leave_out import UnitMoments

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_FEATURES = 1024
"""Most features that are compared; of more, so many are drawn."""
_LENGTHS = 256
"""Random signs that stand for all features."""
_OF_A_MEDIAN = 1.57


class Likeness:
    """Class means of units where the scatter within classes measures."""

    def __init__(self, units: Sequence[UnitMoments], ridge: float, seed: int = 0) -> None:
        draw = np.random.default_rng([seed, len(units)])
        units = _with_drawn_features(units, draw)
        self._counts = np.array([unit.counts for unit in units], np.float64)
        classes = [np.flatnonzero(unit.counts) for unit in units]
        means = [u.sums[:, c] / u.counts[c] for u, c in zip(units, classes, strict=True)]
        scatter = sum(
            unit.rows.T @ unit.rows - (mean * unit.counts[of]) @ mean.T
            for unit, mean, of in zip(units, means, classes, strict=True)
        )
        self._means = np.full((*self._counts.shape, _LENGTHS), np.nan, np.float32)
        self._chance = 1.0
        free = self._counts.sum() - np.count_nonzero(self._counts)
        if free <= 0:
            return
        signs = draw.choice(np.array([-1.0, 1.0]), (len(scatter), _LENGTHS))
        try:
            measure = BlockedFactor(scatter, ridge).back(signs / sqrt(_LENGTHS))
        except SingularError:
            return  # noise on the sums leaves no scatter to measure by
        self._chance = float(np.sum(measure * (scatter @ measure))) / free
        for place, (mean, of) in enumerate(zip(means, classes, strict=True)):
            self._means[place, of] = mean.T @ measure

    def by_class(self, inside: Flags, least: int) -> Floats:
        """Return u (D x C) beside the units inside; NaN where fewer than `least` others are."""
        found = np.full(self._counts.shape, np.nan)
        for column, counts in enumerate(self._counts.T):
            held = (counts > 0) & np.isfinite(self._means[:, column, 0])
            others = held & inside
            if others.sum() <= least:
                continue
            middle = np.median(self._means[others, column], axis=0)
            away = np.square(self._means[held, column] - middle).sum(axis=1)
            varies = _OF_A_MEDIAN * (1 / counts[others]).sum() / others.sum() ** 2
            found[held, column] = away / self._chance / (1 / counts[held] + varies)
        return found

    def figures(self, by_class: Floats) -> Floats:
        """Return each unit's mean u (D,), weighted by samples; NaN where no class has one."""
        weights = np.where(np.isfinite(by_class), self._counts, 0.0)
        total = weights.sum(axis=1)
        summed = (np.nan_to_num(by_class) * weights).sum(axis=1)
        return np.where(total > 0, summed / np.where(total > 0, total, 1.0), np.nan)


def _with_drawn_features(
    units: Sequence[UnitMoments], draw: np.random.Generator
) -> Sequence[UnitMoments]:
    width = len(units[0].sums)
    if width <= _FEATURES:
        return units
    drawn = np.sort(draw.choice(width, _FEATURES, replace=False))
    return [unit.of_features(drawn) for unit in units]


@dataclass(frozen=True)
class UsualFigures:
    """How the figures of most units lie, by their percentiles."""

    least: float = 1.0
    low: float = 1.0
    middle: float = 1.0
    most: float = 1.0

    @classmethod
    def of(cls, figures: Floats) -> UsualFigures:
        """Return those of figures, of which zeros and NaN do not count."""
        there = figures[figures > 0]
        return cls(*np.quantile(there, (0.1, 0.16, 0.5, 0.9)).tolist()) if len(there) else cls()

    @property
    def spread(self) -> float:
        """Ratio of the middle to the 16th percentile: liars lie above, so it is that of others."""
        return self.middle / self.low

    @property
    def reach(self) -> float:
        """Ratio of the 90th percentile to the 10th."""
        return self.most / self.least

    @property
    def between(self) -> float:
        """Figure half way from the 10th to the 90th percentile."""
        return sqrt(self.least * self.most)

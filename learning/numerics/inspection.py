"""Which units of a fleet harm the others' model, from their moments alone.

The units are split into two halves, several times. Each half's model is judged by the other half:
how much worse does a unit of the one make the squared error of a judge of the other, class by class
(`leave_out`)? Honest units help, so zero is the threshold. Three rules find harm, in shares of the
judges' weight, which is a judge's samples up to a cap, times the trust in it:

    own       of the classes that it gave samples of, more than `own` of the judges are worse off
    overall   of all classes, more than `overall` are worse off
    class     of one of its classes more than `one_class` are, and by many times the usual

Beside harm stands what is unlike the others: a unit whose class means lie `unlike` times as far
from the others' as usual (`likeness`), though nobody may be the worse for it: a broken camera, or a
trigger that images of others do not have.

Judges that lie are not believed: trust is the positive part of the leading eigenvector of the
matrix of who helps whom, whose sign divides a fleet into camps, and the larger camp is believed.
At most a few units are left out at a time, the worst first, and the others are judged without
them. At the end each of those that were left out is added to the others, and is cleared where it
helps after all.

Where those left out weigh nearly as much as the rest, or the eigenvector divides a fleet so, no
rule says which camp is honest: both are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.blas import one_blas_thread
from fleetledger.learning.numerics.leave_out import FittedModel, Judges, UnitMoments
from fleetledger.learning.numerics.likeness import Likeness, UsualFigures

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_CLIPPED = 2.0
"""Standard deviations; no single pair counts for more in the trust."""
_OTHER_CAMP = -0.1
"""Of the largest entry of the eigenvector; what is below it is of the other camp."""


@dataclass(frozen=True)
class InspectionRules:
    """How units are judged; shares are of the judges' weight."""

    own: float = 0.7
    overall: float = 0.8
    one_class: float = 0.8
    usual: float = 8.0
    """Times the median size of a unit's influence on a class, at least, for the third rule."""
    unlike: float = 2.5
    """Times the usual distance of class means from those of the others, at least, to be unlike."""
    spreads: float = 4.0
    """Powers of the ratio of the middle distance to the 16th percentile, at least, to be unlike."""
    apart: float = 2.5
    """Ratio of the 90th to the 10th percentile of distances from which on a fleet has two camps."""
    judges: int = 4
    """Fewer judges than this judge nobody."""
    material: float = 0.5
    """Times the median size of a unit's influence, at least, for the first two rules."""
    at_once: int = 5
    """Most units that are left out at a time, and a twentieth of a larger fleet."""
    splits: int = 4
    """Times that units are split into halves; a small fleet more often."""
    features: int = 512
    """Most features of a model that is judged by; of more, each split draws its own."""
    camp: float = 0.3
    """Share of the weight from which on those left out, or with the other sign, are a camp."""


@dataclass(frozen=True)
class ClassVerdict:
    """One class of a unit: `harmed` of `judges` are worse off by it.

    `harm` is the mean change of a judge's squared error per sample, above zero for the worse.
    """

    column: int
    harmed: int
    judges: int
    harm: float
    flagged: bool
    unlike: float
    """Times the usual distance of its mean from the others'; zero where nobody can tell."""


@dataclass(frozen=True)
class UnitVerdict:
    """A unit: `harmed` of `judges` are worse off by what it says of its own classes."""

    harmed: int
    judges: int
    share: float
    """Share of the judges' weight that is worse off."""
    harm: float
    """Mean change of a judge's squared error per sample in all its classes."""
    judged: bool
    flagged: bool
    distance: float
    """Times the usual distance of its class means from the others'; zero where nobody can tell."""
    unlike: bool
    classes: tuple[ClassVerdict, ...]
    """Classes that the unit gave samples of and that enough others can judge."""
    unjudged: tuple[int, ...]
    """Columns of the other classes that it gave samples of."""


@dataclass(frozen=True)
class Inspection:
    """Verdicts in the order of the units."""

    verdicts: tuple[UnitVerdict, ...]
    camps: tuple[tuple[int, ...], tuple[int, ...]] | None
    """Places of the units of two camps that harm each other; None where evidence is clear."""
    passes: int

    @property
    def flagged(self) -> tuple[int, ...]:
        """Places of the units that harm the others."""
        return tuple(place for place, one in enumerate(self.verdicts) if one.flagged)

    @property
    def unlike(self) -> tuple[int, ...]:
        """Places of the units whose classes are not those of the others."""
        return tuple(place for place, one in enumerate(self.verdicts) if one.unlike)


def inspect_units(
    units: Sequence[UnitMoments],
    ridge: float,
    rules: InspectionRules = InspectionRules(),
    seed: int = 0,
) -> Inspection:
    """Return the verdicts on units of one feature width and the same classes.

    The same `seed` gives the same splits. Raises `SingularError` where half of the units have no
    stable model.
    """
    if not units:
        return Inspection((), None, 0)
    with one_blas_thread():
        return _inspected(_Fleet(units, ridge, rules, seed))


def _inspected(fleet: _Fleet) -> Inspection:
    units, rules = fleet.units, fleet.rules
    left_out = np.zeros(len(units), bool)
    passes, camps = 0, None
    while True:
        found = fleet.judge(left_out, passes)
        new = np.flatnonzero((found.flagged | found.unlike) & ~left_out)
        passes, camps = passes + 1, camps or found.camps(left_out, settled=not len(new))
        if not len(new):
            return Inspection(found.verdicts(), camps, passes)
        worst = new[np.lexsort((-found.distance[new], -found.size[new], ~found.flagged[new]))]
        left_out[worst[: max(rules.at_once, len(units) // 20)]] = True


class _Fleet:
    def __init__(
        self, units: Sequence[UnitMoments], ridge: float, rules: InspectionRules, seed: int
    ) -> None:
        self.units, self.ridge, self.rules, self.seed = units, ridge, rules, seed
        samples = np.array([unit.samples for unit in units], np.int64)
        self.there = np.array([len(unit.rows) > 0 for unit in units], bool) & (samples > 0)
        self.has = np.array([unit.counts > 0 for unit in units]) & self.there[:, np.newaxis]
        cap = float(np.median(samples[self.there])) if self.there.any() else 1.0
        self.likeness = Likeness(units, ridge, seed)
        self.weight = np.where(self.there, np.minimum(samples, cap) / cap, 0.0)

    def judge(self, left_out: Flags, number: int) -> _Judged:
        """Return what every unit does to those that are not left out."""
        inside = np.flatnonzero(self.there & ~left_out)
        added = np.flatnonzero(self.there & left_out)
        size, classes = self.has.shape
        harm = np.zeros((size, size, classes), np.float32)
        times = np.zeros((size, size), np.int64)
        splits = max(self.rules.splits, -(-60 // size))
        for split in range(splits if len(inside) > self.rules.judges else 0):
            draw = np.random.default_rng([self.seed, number, split])
            units = self._with_drawn_features(draw)
            order = draw.permutation(inside)
            half = len(order) // 2
            for one, other in ((order[:half], order[half:]), (order[half:], order[:half])):
                model = FittedModel(_chosen(units, one), self.ridge)
                judges = Judges(_chosen(units, other), model.weights)
                who = np.concatenate([one, added])
                for at, change in model.changes(_chosen(units, added)):
                    harm[who[at], other] += judges.harm(change, inside=at < len(one))
                    times[who[at], other] += 1
        harm /= np.maximum(times, 1)[..., np.newaxis]
        return _Judged(self, harm, times > 0, inside)

    def _with_drawn_features(self, draw: np.random.Generator) -> Sequence[UnitMoments]:
        width = self.units[0].rows.shape[1]
        if width <= self.rules.features:
            return self.units
        drawn = np.sort(draw.choice(width, self.rules.features, replace=False))
        return [unit.of_features(drawn) for unit in self.units]


class _Judged:
    """What one pass found: `harm` (D x D x C) of each unit to each judge, where `asked` (D x D)."""

    def __init__(
        self, fleet: _Fleet, harm: npt.NDArray[np.float32], asked: Flags, inside: Integers
    ) -> None:
        self._fleet, self._asked = fleet, asked
        rules, has = fleet.rules, fleet.has
        held = np.where(has[np.newaxis], harm, 0.0)
        overall = held.sum(axis=2)
        own = np.einsum("dec,dc->de", held, has.astype(np.float32))
        self._direction = _leading(own, asked, fleet.weight, inside)
        trusted = np.maximum(self._direction, 0.0) * fleet.weight * asked
        self._judges = trusted > 0
        self._worse = own > 0
        self.share = _mean(self._worse, trusted)
        self.size = _mean(own, trusted)
        by_class = trusted[..., np.newaxis] * has[np.newaxis]
        self._class_judges = by_class > 0
        self._class_worse = held > 0
        self._class_harm = _mean(held, by_class)
        usual = np.median(np.abs(self._class_harm[inside]), axis=0) if len(inside) else 0.0
        enough = self._class_judges.sum(axis=1) >= rules.judges
        self._judged_classes = enough & has
        self._class_flags = (
            self._judged_classes
            & (_mean(self._class_worse, by_class) > rules.one_class)
            & (self._class_harm > rules.usual * usual)
        )
        self._judged = (self._judges.sum(axis=1) >= rules.judges) & self._judged_classes.any(axis=1)
        sizes = np.abs(self.size[inside])
        material = rules.material * float(np.median(sizes)) if len(inside) else 0.0
        of_own = (self.share > rules.own) & (self.size > material)
        of_all = _mean(overall > 0, trusted) > rules.overall
        of_all &= _mean(overall, trusted) > material
        self.flagged = self._judged & (of_own | of_all | self._class_flags.any(axis=1))
        self._compare(inside)

    def _compare(self, inside: Integers) -> None:
        """Find whose class means are not those of the units inside."""
        fleet, rules = self._fleet, self._fleet.rules
        among = np.zeros(len(self.flagged), bool)
        among[inside] = True
        by_class = fleet.likeness.by_class(among, rules.judges)
        figures = np.nan_to_num(fleet.likeness.figures(by_class))
        usual = UsualFigures.of(figures[among])
        self.distance = figures / usual.middle
        self._class_distance = np.nan_to_num(by_class) / usual.middle
        self.unlike = self.distance > max(rules.unlike, usual.spread**rules.spreads)
        self._apart = among & (usual.reach > rules.apart) & (figures > usual.between)

    def verdicts(self) -> tuple[UnitVerdict, ...]:
        """Return the verdict on each unit."""
        return tuple(self._verdict(place) for place in range(len(self.flagged)))

    def _verdict(self, place: int) -> UnitVerdict:
        judges = self._judges[place]
        has, judged = self._fleet.has[place], self._judged_classes[place]
        return UnitVerdict(
            harmed=int((judges & self._worse[place]).sum()),
            judges=int(judges.sum()),
            share=float(self.share[place]),
            harm=float(self.size[place]),
            judged=bool(self._judged[place]),
            flagged=bool(self.flagged[place]),
            distance=float(self.distance[place]),
            unlike=bool(self.unlike[place]),
            classes=tuple(self._class(place, int(c)) for c in np.flatnonzero(judged)),
            unjudged=tuple(map(int, np.flatnonzero(has & ~judged))),
        )

    def _class(self, place: int, column: int) -> ClassVerdict:
        judges = self._class_judges[place, :, column]
        return ClassVerdict(
            column=column,
            harmed=int((judges & self._class_worse[place, :, column]).sum()),
            judges=int(judges.sum()),
            harm=float(self._class_harm[place, column]),
            flagged=bool(self._class_flags[place, column]),
            unlike=float(self._class_distance[place, column]),
        )

    def camps(
        self, left_out: Flags, *, settled: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return two camps, where it is not clear which of them is honest."""
        there, weight = self._fleet.there, self._fleet.weight
        harmful = left_out | self.flagged | (self._direction < _OTHER_CAMP)
        for other in (harmful, left_out | self.unlike | (self._apart & settled)):
            second = there & other
            if second.any() and weight[second].sum() >= self._fleet.rules.camp * weight.sum():
                return _places(there & ~second), _places(second)
        return None


def _leading(own: Floats, asked: Flags, weight: Floats, inside: Integers) -> Floats:
    """Return the leading eigenvector (D,) of who helps whom; its largest entry is 1 or -1.

    The sign is that of the larger camp by weight. Units that were left out have 0.
    """
    direction = np.zeros(len(weight))
    if len(inside) == 0:
        return direction
    helps = np.where(asked, -own, 0.0)[np.ix_(inside, inside)].astype(np.float64)
    for axis in (1, 0):
        spread = np.sqrt(np.square(helps).mean(axis=axis, keepdims=True))
        helps = helps / np.where(spread > 0, spread, 1.0)
    helps = np.clip(helps, -_CLIPPED, _CLIPPED)
    root = np.sqrt(weight[inside])
    vector = np.linalg.eigh((helps + helps.T) * root[:, np.newaxis] * root)[1][:, -1] / root
    if (weight[inside] * np.sign(vector)).sum() < 0:
        vector = -vector
    direction[inside] = vector / max(float(np.abs(vector).max()), np.finfo(np.float64).tiny)
    return direction


def _mean(values: npt.NDArray[np.floating] | Flags, weights: Floats) -> Floats:
    """Return the weighted mean over judges (axis 1), zero where there is none."""
    total = weights.sum(axis=1)
    return np.asarray((values * weights).sum(axis=1) / np.where(total > 0, total, 1.0))


def _chosen(units: Sequence[UnitMoments], places: Integers) -> list[UnitMoments]:
    return [units[int(place)] for place in places]


def _places(flags: Flags) -> tuple[int, ...]:
    return tuple(map(int, np.flatnonzero(flags)))

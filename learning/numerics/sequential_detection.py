"""A sequential test for images that are stranger than the quiet ones, with a bound on false alarms.

Each new image has a value from 0 to 1, here the model's doubt. Its conformal p-value is the share
of all images so far, itself among them, that are at least as strange, ties broken by chance. While
quiet images come in an order that says nothing (they are exchangeable with each other and with the
reference), p-values are uniform and independent, whatever the distribution and however few images
there are. A bet on low ones pays

    e(p) = 1 + BET (1 - 2 p),

which is 1 on average. Evidence for a change at any time in the past is summed, and an alarm begins
it anew:

    M(t) = (M(t-1) + 1) e(p_t),   M(0) = 0,   alarm where M(t) >= quiet_images.

This is an e-detector of Shiryaev-Roberts form (Shin, Ramdas and Rinaldo, E-detectors, 2022) made of
a conformal test martingale (Vovk, Nouretdinov and Gammerman, 2003; Vovk, Testing randomness online,
2021). M(t) - t is a martingale of the p-values, hence the law: while all is quiet, an alarm comes
after at least `quiet_images` images on average, and so does each one after it.

Values are counted in `BINS` levels, so that what is remembered does not grow: levels of images are
as exchangeable as the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

BINS = 256
"""Levels that are told apart: steps of a cube root, since sure models differ near 0."""
BET = 0.4
"""What is staked of the evidence on each image; benchmarks/detection tells what it gives."""
RAISED_IMAGES = 200
"""For so many images after an alarm the level counts as raised."""

_APART = 1 << 62
"""Between numbers that break ties and those that shuffle."""


class Doubt(NamedTuple):
    """Values of some images, in short."""

    images: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean value; None of nothing."""
        return self.total / self.images if self.images else None

    def plus(self, other: Doubt) -> Doubt:
        """Return both together."""
        return Doubt(self.images + other.images, self.total + other.total)


@dataclass(frozen=True)
class ChangeEvidence:
    """What a device remembers between images."""

    levels: tuple[int, ...] = ()
    """How many images of each of `BINS` levels there were; empty before the first."""
    value: float = 0.0
    """M: the evidence for a change."""
    onset: float = 1.0
    """The highest evidence for a change that began at one certain image; 1 where there is none."""
    before: Doubt = field(default_factory=Doubt)
    """Images before that one, and those of the reference."""
    run: Doubt = field(default_factory=Doubt)
    """Images since."""
    compared: int = 0
    """Images that were compared: ties are broken by this number."""
    raised_for: int = 0
    """Images for which the level counts as raised yet."""

    @property
    def images(self) -> int:
        """Those that new ones are compared with."""
        return self.before.images + self.run.images

    def to_plain(self) -> dict[str, Any]:
        """Return plain values; the law: `ChangeEvidence.from_plain(e.to_plain()) == e`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ChangeEvidence:
        """Return what `to_plain` wrote; raise `KeyError`, `TypeError` or `ValueError` else."""
        levels = tuple(int(count) for count in plain["levels"])
        if len(levels) not in (0, BINS):
            raise ValueError(f"levels: {len(levels)} of them; there are {BINS}")
        return cls(
            levels=levels,
            value=float(plain["value"]),
            onset=float(plain["onset"]),
            before=Doubt(*plain["before"]),
            run=Doubt(*plain["run"]),
            compared=int(plain["compared"]),
            raised_for=int(plain["raised_for"]),
        )


class Alarm(NamedTuple):
    """What was seen when the evidence was enough."""

    run: Doubt
    """Images since the change has most probably begun."""
    before: Doubt


def with_reference(evidence: ChangeEvidence, values: Sequence[float]) -> ChangeEvidence:
    """Return the evidence with more quiet images to compare with."""
    counts = _counts(evidence) + np.bincount(levels_of(values), minlength=BINS)
    added = Doubt(len(values), float(np.sum(values)))
    return replace(evidence, levels=tuple(counts.tolist()), before=evidence.before.plus(added))


def gathered(
    evidence: ChangeEvidence, values: Sequence[float], quiet_images: float
) -> tuple[ChangeEvidence, tuple[Alarm, ...]]:
    """Take in the values of new images that came together; return the alarms.

    They are shuffled: what comes together lies sorted, by class and by name.
    """
    values = [values[index] for index in shuffled(len(values), evidence.compared)]
    counts, alarms = _counts(evidence), []
    for value, level in zip(values, levels_of(values).tolist(), strict=True):
        p = p_value(counts, level, chance_of(evidence.compared))
        counts[level] += 1
        evidence = _after(evidence, float(value), p)
        if evidence.value >= quiet_images:
            run = evidence.run if evidence.run.images else Doubt(1, float(value))
            alarms.append(Alarm(run, evidence.before))
            evidence = _begun_anew(evidence)
    return replace(evidence, levels=tuple(counts.tolist())), tuple(alarms)


def is_stranger(
    before: Sequence[int], values: Sequence[float], looks: float, *, either: bool = False
) -> bool:
    """Return whether the images of one look are stranger than those of the look before.

    `before` counts the latter by level (`counts_of`). The evidence is the product of the bets from
    the look's first image on, and stranger is what reaches `looks` at any of them: by Ville's
    inequality at most one look in `looks` in which nothing has changed, if the look's images are
    exchangeable with those before, or less strange. With `either` images that are less strange
    count as much: half of the evidence bets on high p-values. Nothing is stranger than nothing.
    """
    if not before:
        return False
    counts, number = np.array(before, np.int64), sum(before)
    evidence = np.ones(2)
    levels = levels_of(values)
    for index in shuffled(len(values), number):
        p = p_value(counts, int(levels[index]), chance_of(number))
        counts[levels[index]] += 1
        number += 1
        evidence *= (pays(p), pays(1 - p))
        if (float(evidence.mean()) if either else float(evidence[0])) >= looks:
            return True
    return False


def counts_of(values: Sequence[float]) -> tuple[int, ...]:
    """Return how many values are of each level (BINS,)."""
    return tuple(np.bincount(levels_of(values), minlength=BINS).tolist())


def levels_of(values: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the level, from 0 to `BINS` - 1, of each value."""
    roots = np.cbrt(np.clip(np.asarray(values, np.float64), 0.0, 1.0))
    return np.asarray(np.minimum(roots * BINS, BINS - 1), np.int64)


def p_value(counts: npt.NDArray[np.int64], level: int, chance: float) -> float:
    """Return the conformal p-value of an image of a level beside those that are counted (BINS,).

    `chance` from 0 to 1 breaks ties.
    """
    stranger = int(counts[level + 1 :].sum())
    return (stranger + chance * (int(counts[level]) + 1)) / (int(counts.sum()) + 1)


def pays(p: float) -> float:
    """Return what the bet pays for a p-value: 1 on average over uniform ones."""
    return 1.0 + BET * (1.0 - 2.0 * p)


def shuffled(images: int, number: int) -> list[int]:
    """Return the indices of some images in an order of chance, the same for the same `number`."""
    first = number + _APART
    return sorted(range(images), key=lambda index: chance_of(first + index))


def chance_of(number: int) -> float:
    """Return a number from 0 to 1 as if drawn by chance, the same for the same `number`.

    SplitMix64 (Steele, Lea and Flood, 2014): so a rule stays a function of what it is given.
    """
    mask = (1 << 64) - 1
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & mask
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & mask
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
    return ((mixed ^ mixed >> 31) >> 11) / 2**53


def _after(evidence: ChangeEvidence, value: float, p: float) -> ChangeEvidence:
    """Return what is known after an image."""
    payed, image = pays(p), Doubt(1, value)
    onset = evidence.onset * payed
    goes_on = onset > 1.0
    run = evidence.run.plus(image)
    return replace(
        evidence,
        value=(evidence.value + 1.0) * payed,
        onset=onset if goes_on else 1.0,
        before=evidence.before if goes_on else evidence.before.plus(run),
        run=run if goes_on else Doubt(),
        compared=evidence.compared + 1,
        raised_for=max(0, evidence.raised_for - 1),
    )


def _begun_anew(evidence: ChangeEvidence) -> ChangeEvidence:
    """Return the state after an alarm: its images belong to what is compared with from here on."""
    return ChangeEvidence(
        before=evidence.before.plus(evidence.run),
        compared=evidence.compared,
        raised_for=RAISED_IMAGES,
    )


def _counts(evidence: ChangeEvidence) -> npt.NDArray[np.int64]:
    return np.array(evidence.levels or (0,) * BINS, np.int64)

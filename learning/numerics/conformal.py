"""Conformal p-values of values from 0 to 1, and a test of one look against the look before.

The conformal p-value of an image is the share of images, itself among them, that are at least as
strange, ties broken by chance (Vovk, Gammerman and Shafer, Algorithmic learning in a random world,
2005). It is uniform where the image is exchangeable with the others, whatever the distribution and
however few they are.

Values are counted in `BINS` levels, so that what is remembered does not grow: levels of images are
as exchangeable as the images. Chance is a function of a number, so a rule stays a function of what
it is given. `first_number` of a name that is the device's own begins the numbers: devices whose
images are equally strange, as those of a sure model are, would else break ties alike and raise
false alarms together.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt

BINS = 256
"""Levels that are told apart: steps of a cube root, since sure models differ near 0."""
LOOK_BET = 0.4
"""Share of the evidence that a look stakes on each image."""

_APART = 1 << 62
"""Between numbers that break ties and those that shuffle."""
_NUMBER_BYTES = 6
"""Of the digest that begins a sequence of numbers: 2^48 of them do not meet in practice."""


def is_stranger(
    before: Sequence[int], values: Sequence[float], looks: float, own: str, *, either: bool = False
) -> bool:
    """Return whether the images of one look are stranger than those of the look before.

    `before` counts the latter by level (`counts_of`), and `own` names device and look. The evidence
    is the product of the bets 1 + `LOOK_BET` (1 - 2 p) from the look's first image on, and stranger
    is what reaches `looks` at any of them: by Ville's inequality at most one look in `looks` in
    which nothing has changed, if the look's images are exchangeable with those before, or less
    strange. With `either` images that are less strange count as much: half of the evidence bets on
    high p-values. Nothing is stranger than nothing.
    """
    if not before:
        return False
    counts, number = np.array(before, np.int64), first_number(own)
    evidence = np.ones(2)
    levels = levels_of(values)
    for index in shuffled(len(values), number):
        p = p_value(counts, int(levels[index]), chance_of(number))
        counts[levels[index]] += 1
        number += 1
        evidence *= (pays(p, LOOK_BET), pays(1 - p, LOOK_BET))
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


def pays(p: float, stake: float) -> float:
    """Return what a bet on low p-values pays: 1 on average over uniform ones."""
    return 1.0 + stake * (1.0 - 2.0 * p)


def shuffled(images: int, number: int) -> list[int]:
    """Return the indices of some images in an order of chance, the same for the same `number`."""
    first = number + _APART
    return sorted(range(images), key=lambda index: chance_of(first + index))


def first_number(own: str) -> int:
    """Return the number, below 2^48, at which the chances of a name begin: of its SHA-256."""
    return int.from_bytes(sha256(own.encode("utf-8")).digest()[:_NUMBER_BYTES], "big")


def chance_of(number: int) -> float:
    """Return a number from 0 to 1 as if drawn by chance, the same for the same `number`.

    SplitMix64 (Steele, Lea and Flood, 2014).
    """
    mask = (1 << 64) - 1
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & mask
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & mask
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
    return ((mixed ^ mixed >> 31) >> 11) / 2**53

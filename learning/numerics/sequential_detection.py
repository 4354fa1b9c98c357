"""A sequential test for images that are stranger than the quiet ones, with a bound on false alarms.

Each new image has a value from 0 to 1, here the model's doubt. Streams of cameras show one thing in
many images, so only the first image of a shot is compared (`learning.numerics.shots`): its
conformal p-value is taken among all compared before its block (`learning.numerics.conformal`). K
shots in a row are a block, which bets once, by the mean of its shots' bets, and evidence for a
change at any time in the past is summed over w, the images that passed:

    M = M * (1/K) sum_k (1 + BET (1 - 2 p_k)) + w,     M = 0 at first,
    alarm where M >= quiet_images, and M = 0 again.

A mean of bets that are 1 on average is 1 on average however they depend on each other (Vovk and
Wang, E-values: calibration, combination and applications, 2021), so shots within a block may
resemble each other. It is an e-detector of Shiryaev-Roberts form (Shin, Ramdas and Rinaldo,
E-detectors, 2022) over the bets of a conformal test (Vovk, Testing randomness online, 2021), with a
clock of images: M less the images passed is a supermartingale while blocks come in an order that
says nothing. Hence the law, by optional stopping: while all is quiet, an alarm comes after at least
`quiet_images` images on average, and so does each one after it. w is at most `quiet_images` /
`SHOTS_AN_ALARM` a shot, so that alarms are as many shots apart, too.

K is the smallest of 4, 8 ... 64 at which neighbouring blocks hardly correlate on this device. It is
chosen by earlier blocks, before a block begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.conformal import BINS, chance_of, levels_of, p_value, pays

BET = 0.8
"""Share of the evidence that a block stakes; benchmarks/papers/detection tells what it gives."""
SHOTS_AN_ALARM = 50
"""No more than one alarm in so many quiet shots, on average, however long these are."""
RAISED_IMAGES = 200
"""For so many images after an alarm the level counts as raised."""
LEAST_BLOCK = 4
"""Shots of the smallest block."""
SIZES = 7
"""Sizes 1, 2, 4 ... 64 whose neighbours are correlated."""

_PAIRS = 10
"""Pairs of neighbours below which a size is not judged."""
_SMALL = 0.2
"""A correlation that hardly is one, or two standard errors of it where that is more."""
_KEPT = 0.999
"""Share of what earlier pairs say that a shot leaves."""
_NO_NUMBERS = (0.0,) * SIZES


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


class ShotBlock(NamedTuple):
    """Shots that bet together, as far as they have come."""

    size: int = LEAST_BLOCK
    """K, the shots that it will have."""
    levels: tuple[int, ...] = ()
    total: float = 0.0
    """Sum of their values."""
    payed: float = 0.0
    """Sum of their bets."""
    passed: float = 0.0
    """w: images that they stand for."""

    @property
    def doubt(self) -> Doubt:
        """Their values, in short."""
        return Doubt(len(self.levels), self.total)


class Neighbours(NamedTuple):
    """How means of 1, 2, 4 ... p-values correlate with the mean just before; old pairs fade."""

    shots: int = 0
    sums: tuple[float, ...] = _NO_NUMBERS
    """Of the mean of each size that is under way."""
    last: tuple[float | None, ...] = (None,) * SIZES
    """The last mean of each size."""
    products: tuple[float, ...] = _NO_NUMBERS
    squares: tuple[float, ...] = _NO_NUMBERS
    pairs: tuple[float, ...] = _NO_NUMBERS

    def plus(self, value: float) -> Neighbours:
        """Return it with one more value, whose mean is 0 while all is quiet."""
        shots, sums, last = self.shots + 1, [one + value for one in self.sums], list(self.last)
        products, squares, pairs = list(self.products), list(self.squares), list(self.pairs)
        for size in range(SIZES):
            if shots % (1 << size):
                break
            mean, before, kept = sums[size] / (1 << size), last[size], _KEPT ** (1 << size)
            sums[size], last[size] = 0.0, mean
            if before is not None:
                products[size] = kept * products[size] + mean * before
                squares[size] = kept * squares[size] + (mean * mean + before * before) / 2
                pairs[size] = kept * pairs[size] + 1
        numbers = (tuple(one) for one in (products, squares, pairs))
        return Neighbours(shots, tuple(sums), tuple(last), *numbers)

    @property
    def block_size(self) -> int:
        """The smallest block whose neighbours hardly correlate, or of which too little is known."""
        for size in range(LEAST_BLOCK.bit_length() - 1, SIZES):
            pairs = self.pairs[size]
            if pairs < _PAIRS:
                return 1 << size
            if self.products[size] <= max(_SMALL, 2 / pairs**0.5) * self.squares[size]:
                return 1 << size
        return 1 << SIZES - 1


@dataclass(frozen=True)
class ChangeEvidence:
    """What a device remembers between images."""

    levels: tuple[int, ...] = ()
    """How many images of each of `BINS` levels new ones are compared with; empty before any."""
    value: float = 0.0
    """M: the evidence for a change."""
    onset: float = 1.0
    """The highest evidence for a change that began at one certain block; 1 where there is none."""
    before: Doubt = field(default_factory=Doubt)
    """Shots before that one, and images of the reference."""
    run: Doubt = field(default_factory=Doubt)
    """Shots since."""
    compared: int = 0
    """Number that breaks the ties of the next shot: `conformal.first_number` at first."""
    raised_for: int = 0
    """Images for which the level counts as raised yet."""
    passed: int = 0
    """Images since the last shot began."""
    block: ShotBlock = field(default_factory=ShotBlock)
    neighbours: Neighbours = field(default_factory=Neighbours)

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
        size, inside, *sums = plain["block"]
        shots, *numbers = plain["neighbours"]
        return cls(
            levels=levels,
            value=float(plain["value"]),
            onset=float(plain["onset"]),
            before=Doubt(*plain["before"]),
            run=Doubt(*plain["run"]),
            compared=int(plain["compared"]),
            raised_for=int(plain["raised_for"]),
            passed=int(plain["passed"]),
            block=ShotBlock(size, tuple(inside), *sums),
            neighbours=Neighbours(shots, *(tuple(one) for one in numbers)),
        )


class Alarm(NamedTuple):
    """What was seen when the evidence was enough."""

    run: Doubt
    """Shots since the change has most probably begun."""
    before: Doubt
    after: int
    """Images of those that came together with which the evidence was enough."""


def with_reference(evidence: ChangeEvidence, values: Sequence[float]) -> ChangeEvidence:
    """Return the evidence with more quiet images to compare with."""
    counts = _counts(evidence) + np.bincount(levels_of(values), minlength=BINS)
    added = Doubt(len(values), float(np.sum(values)))
    return replace(evidence, levels=tuple(counts.tolist()), before=evidence.before.plus(added))


def gathered(
    evidence: ChangeEvidence,
    values: Sequence[float],
    quiet_images: float,
    begins: Sequence[bool] | None = None,
) -> tuple[ChangeEvidence, tuple[Alarm, ...]]:
    """Take in the values of new images in their order; return the alarms.

    `begins` says which of them begin a shot; None where each is its own.
    """
    counts, alarms = _counts(evidence), []
    begins = [True] * len(values) if begins is None else begins
    most = quiet_images / SHOTS_AN_ALARM
    images = zip(values, levels_of(values).tolist(), begins, strict=True)
    for after, (value, level, begun) in enumerate(images, start=1):
        raised_for = max(0, evidence.raised_for - 1)
        evidence = replace(evidence, passed=evidence.passed + 1, raised_for=raised_for)
        if not begun:
            continue
        p = p_value(counts, level, chance_of(evidence.compared))
        evidence = _with_shot(evidence, float(value), level, p, most)
        if len(evidence.block.levels) < evidence.block.size:
            continue
        np.add.at(counts, list(evidence.block.levels), 1)
        ended, evidence = evidence.block, _after_block(evidence)
        if evidence.value >= quiet_images:
            run = evidence.run if evidence.run.images else ended.doubt
            alarms.append(Alarm(run, evidence.before, after))
            evidence = _begun_anew(evidence)
    return replace(evidence, levels=tuple(counts.tolist())), tuple(alarms)


def _with_shot(
    evidence: ChangeEvidence, value: float, level: int, p: float, most: float
) -> ChangeEvidence:
    """Return the evidence with one more shot in its block."""
    block = evidence.block
    return replace(
        evidence,
        compared=evidence.compared + 1,
        passed=0,
        block=ShotBlock(
            block.size,
            (*block.levels, level),
            block.total + value,
            block.payed + pays(p, BET),
            block.passed + min(evidence.passed, most),
        ),
        neighbours=evidence.neighbours.plus(0.5 - p),
    )


def _after_block(evidence: ChangeEvidence) -> ChangeEvidence:
    """Return what is known after a block that is full, and begin the next one."""
    block = evidence.block
    payed = block.payed / block.size
    onset, run = evidence.onset * payed, evidence.run.plus(block.doubt)
    goes_on = onset > 1.0
    return replace(
        evidence,
        value=evidence.value * payed + block.passed,
        onset=onset if goes_on else 1.0,
        before=evidence.before if goes_on else evidence.before.plus(run),
        run=run if goes_on else Doubt(),
        block=ShotBlock(evidence.neighbours.block_size),
    )


def _begun_anew(evidence: ChangeEvidence) -> ChangeEvidence:
    """Return the state after an alarm: its shots belong to what is compared with from here on."""
    return replace(
        evidence,
        value=0.0,
        onset=1.0,
        before=evidence.before.plus(evidence.run),
        run=Doubt(),
        raised_for=RAISED_IMAGES,
    )


def _counts(evidence: ChangeEvidence) -> npt.NDArray[np.int64]:
    return np.array(evidence.levels or (0,) * BINS, np.int64)

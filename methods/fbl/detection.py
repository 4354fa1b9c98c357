"""Whether a task has begun, by how uncertain the fleet's model is of a device's pixels; pure.

    (11)  I^r = mean over the pictures of the mean over their pixels of h
          a task has begun where I^r - I^{r-1} >= tau

This is `rise`; as released, I^{r-1} counts as -1 where the fleet's stage is new, so that every
device's first look there is a transition. The head that grows fakes one too: its new rows share
what background had, and a certain background pixel has ln(K + 1) nats then.

`history` measures what holds still when a head grows (`learning.numerics.pixel_uncertainty`): with
the rows that were registered when the device's history began, over each picture's most uncertain
tenth of pixels, relative to ln C. It must lie `deviations` standard deviations from the mean of the
device's looks since its last transition: above, or below, for what earlier masks called background
is certain to be background, so that new scenes can look easier. `sequential` measures with the
same rows over all pixels, and compares each picture with those of the look before by ranks
(`learning.numerics.conformal`): at most one look in `quiet_looks` is a false alarm, as
long as training moves no picture of old classes. `stage` trusts the registry: scenes of a class
whose stage is newer than all that the device had.

A device's first look begins its first task, but for `rise` as released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetledger.learning.numerics.conformal import counts_of, is_stranger
from fleetledger.methods.fbl.settings import DetectionSettings
from fleetledger.schemas.values import ClassName

MOST_CHECKS = 100
"""Looks that are remembered."""
RELEASED_BEFORE = -1.0
"""The entropy before the first one, as released."""


@dataclass(frozen=True)
class NoveltyHistory:
    """What a device remembers of its looks; before the first one, nothing."""

    tasks: int = 0
    """t_l: the transitions that it has noticed."""
    stage: int = 0
    """The newest stage that it had scenes of."""
    fleet_stage: int = 0
    """The fleet's stage at the last look."""
    rows: tuple[ClassName, ...] = ()
    """Rows of the head when the history began, without background's; `history` and `sequential`
    measure by them."""
    history: tuple[float, ...] = ()
    """Earlier values, the last one last: nats, or for `history` those since the last transition."""
    levels: tuple[int, ...] = ()
    """For `sequential`: how many pictures of the last look were of each level; none where that was
    a transition."""


@dataclass(frozen=True)
class Measured:
    """What a look measured."""

    nats: float
    """I^r over all rows of the head."""
    levels: tuple[float, ...]
    """Of each picture by the rows of the looks before, 0 to 1: of its most uncertain tenth, for
    `sequential` of all its pixels."""

    @property
    def level(self) -> float:
        """The mean of `levels`."""
        return math.fsum(self.levels) / len(self.levels)


@dataclass(frozen=True)
class Present:
    """What is the case at a look."""

    rows: tuple[ClassName, ...]
    """Rows of the head, background's left out."""
    stage: int
    """The newest stage that brought a class of the device's scenes."""
    fleet_stage: int
    own: str = ""
    """Name of device and round, whose chance breaks ties."""


def judge_novelty(
    rules: DetectionSettings, before: NoveltyHistory, measured: Measured, present: Present
) -> tuple[bool, NoveltyHistory]:
    """Return whether a device sees a task begin, and what it remembers from here on."""
    transition = _is_transition(rules, before, measured, present)
    by_levels = rules.detection in ("history", "sequential")
    value = measured.level if by_levels else measured.nats
    anew = by_levels and transition
    keeps_levels = rules.detection == "sequential" and not anew
    looks = NoveltyHistory(
        tasks=before.tasks + transition,
        stage=max(present.stage, before.stage),
        fleet_stage=present.fleet_stage,
        rows=present.rows if anew or not before.tasks else before.rows,
        history=() if anew else (*before.history, value)[-MOST_CHECKS:],
        levels=counts_of(measured.levels) if keeps_levels else (),
    )
    return transition, looks


def _is_transition(
    rules: DetectionSettings, before: NoveltyHistory, measured: Measured, present: Present
) -> bool:
    if rules.detection == "stage":
        return present.stage > before.stage
    if rules.detection == "history":
        return before.tasks == 0 or stands_out(before.history, measured.level, rules)
    if rules.detection == "sequential":
        either = rules.stands_out == "either"
        return before.tasks == 0 or is_stranger(
            before.levels, measured.levels, rules.quiet_looks, present.own, either=either
        )
    if rules.released_monitor:
        is_new = present.fleet_stage > before.fleet_stage
        last = RELEASED_BEFORE if is_new or not before.history else before.history[-1]
        return measured.nats - last >= rules.entropy_rise
    return before.tasks == 0 or measured.nats - before.history[-1] >= rules.entropy_rise


def stands_out(history: Sequence[float], level: float, rules: DetectionSettings) -> bool:
    """Return whether a level lies beyond what the last `looks` before it allow."""
    looks = history[-rules.looks :]
    if not looks:
        return False
    mean = math.fsum(looks) / len(looks)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in looks) / len(looks))
    apart = abs(level - mean) if rules.stands_out == "either" else level - mean
    return apart > rules.deviations * max(spread, rules.smallest_deviation)

"""Whether a task has begun, by how uncertain the fleet's model is of a device's images; pure.

    (8)   H^r = mean over the images of - sum_c p_c ln p_c,   p the softmax of the incoming model
          a task has begun where H^r - H^{r-1} >= r_e, with H^0 = 0

In mode `code` the logarithm is of p_c + 1e-5, as in the program. This is the rule `rise`. H cannot
exceed ln C, so 1.2 nats are out of reach with three classes. `relative` takes H / ln C, and
compares it with the mean of the device's looks since the last transition: it must lie `deviations`
standard deviations above. `sequential` compares H / ln C of the images with that of the images of
the look before, each for itself (`learning.numerics.conformal`): at most one look in
`quiet_looks` is a false alarm, as long as the new model is no less sure of what is old. A device's
first look begins its first task. Rows that the head has just
grown lift H of images that nobody changed; `looks_at = "known"` leaves them out, and misses more
tasks (README.md has figures). `stage` trusts the registry: images of a class whose stage is newer
than all that the device had are a transition by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.conformal import counts_of, is_stranger
from fleetledger.learning.numerics.entropy import entropy, relative_entropy, softmax
from fleetledger.methods.lga.settings import DetectionSettings
from fleetledger.schemas.values import ClassName

MOST_CHECKS = 100
"""Looks that are remembered."""


@dataclass(frozen=True)
class NoveltyHistory:
    """What a device remembers of its looks; before the first one, nothing."""

    tasks: int = 0
    """t_l: the transitions that it has noticed."""
    stage: int = 0
    """The newest stage that it had images of."""
    rows: tuple[ClassName, ...] = ()
    """Rows of the head at the last look."""
    history: tuple[float, ...] = ()
    """Earlier values, the last one last: nats; for `relative` those since the last transition."""
    levels: tuple[int, ...] = ()
    """For `sequential`: how many images of the last look were of each level of H / ln C."""


@dataclass(frozen=True)
class Seen:
    """One look."""

    nats: float
    """H over all rows of the head."""
    transition: bool
    looks: NoveltyHistory
    """What is remembered from here on."""


def judge_novelty(
    rules: DetectionSettings,
    before: NoveltyHistory,
    logits: npt.NDArray[Any],
    rows: Sequence[ClassName],
    stage: int,
    own: str = "",
) -> Seen:
    """Return what a device sees in the scores (n, C), n > 0, of its current images.

    `rows` are the names of the columns, and `stage` is the newest that brought one of the images'
    classes. `own` names device and round, whose chance breaks ties.
    """
    nats = float(entropy(softmax(logits), rules.entropy_offset).mean())
    known = before.rows if rules.looks_at == "known" else rows
    value = relative_level(logits, rows, known) if rules.detection == "relative" else nats
    levels: tuple[int, ...] = ()
    if rules.detection == "stage":
        transition = stage > before.stage
    elif rules.detection == "sequential":
        values = relative_levels(logits, rows, known)
        levels = counts_of(values)
        transition = before.tasks == 0 or is_stranger(before.levels, values, rules.quiet_looks, own)
    elif rules.detection == "relative":
        transition = before.tasks == 0 or stands_out(before.history, value, rules)
    else:
        transition = has_risen(before.history, value, rules.entropy_rise)
    anew = transition and rules.detection == "relative"
    history = () if anew else (*before.history, value)[-MOST_CHECKS:]
    tasks = before.tasks + transition
    looks = NoveltyHistory(tasks, max(stage, before.stage), tuple(rows), history, levels)
    return Seen(nats, transition, looks)


def relative_level(
    logits: npt.NDArray[Any], rows: Sequence[ClassName], known: Sequence[ClassName]
) -> float:
    """Return the mean of H / ln C, 0 to 1, over the columns that `known` has too.

    Over all of them where fewer than two are left.
    """
    return float(np.mean(relative_levels(logits, rows, known)))


def relative_levels(
    logits: npt.NDArray[Any], rows: Sequence[ClassName], known: Sequence[ClassName]
) -> list[float]:
    """Return H / ln C of each image, as `relative_level` takes its mean."""
    there = set(known)
    columns = [column for column, name in enumerate(rows) if name in there]
    seen = logits[:, columns] if len(columns) >= 2 else logits
    return [float(value) for value in relative_entropy(softmax(seen))]


def has_risen(history: Sequence[float], nats: float, rise: float) -> bool:
    """Return equation (8) for H and earlier values of it, the last one last."""
    return nats - (history[-1] if history else 0.0) >= rise


def stands_out(history: Sequence[float], value: float, rules: DetectionSettings) -> bool:
    """Return whether a relative entropy lies above what the last `looks` before it allow."""
    looks = history[-rules.looks :]
    if not looks:
        return False
    mean = math.fsum(looks) / len(looks)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in looks) / len(looks))
    return value > mean + rules.deviations * max(spread, rules.smallest_deviation)

"""The door to training: any number of works, in a loop, in stacks, or whichever is faster here.

Loop and stack draw the same chance and do the same steps; their results differ by rounding. So
`auto`, which measures, gives results that may differ in the last bits from run to run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence

from learning.training.loop import check, train_alone
from learning.training.memory import agents_per_stack
from learning.training.settings import TrainingEngineSettings
from learning.training.stack import train_stacked
from learning.training.stacking import alone_because, signature
from learning.training.work import Trained, Work, shortened

_CALIBRATION_RUNS = 3
_CALIBRATION_BATCHES = 3
_ALONE, _STACKED = 2, 8
"""Agents that the loop and the stack are timed on; more in a stack are no slower each."""

_Train = Callable[[Sequence[Work], TrainingEngineSettings], list[Trained]]


def train(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Trained]:
    """Return what training makes of each work, in their order; no work is changed.

    Raises `TrainingError` for work that cannot be trained as described, or, where the engine is
    `stack`, for work that cannot share one: a network without layers for stacks, scenes, parts.
    """
    for work in works:
        check(work)
    results: dict[int, Trained] = {}
    for members in _groups(works):
        group = [works[index] for index in members]
        results |= dict(zip(members, _train_group(group, settings), strict=True))
    return [results[index] for index in range(len(works))]


def train_in_loop(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Trained]:
    """Return what training makes of the works, one after another."""
    return [train_alone(work, settings) for work in works]


def train_in_stacks(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Trained]:
    """Return what training makes of works of one signature, as many at once as memory holds."""
    each = agents_per_stack(works, settings)
    by_size = sorted(range(len(works)), key=lambda index: -len(works[index].data))
    results: dict[int, Trained] = {}
    for start in range(0, len(works), each):
        members = by_size[start : start + each]
        trained = train_stacked([works[index] for index in members], settings)
        results |= dict(zip(members, trained, strict=True))
    return [results[index] for index in range(len(works))]


def _groups(works: Sequence[Work]) -> Iterator[list[int]]:
    """Yield the places of works that could share a stack; works without a batch are apart."""
    groups: dict[Hashable, list[int]] = {}
    for index, work in enumerate(works):
        trains = work.batching.count(len(work.data)) > 0
        groups.setdefault((trains, signature(work)) if trains else False, []).append(index)
    yield from groups.values()


def _train_group(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Trained]:
    if settings.engine == "loop" or not works[0].batching.count(len(works[0].data)):
        return train_in_loop(works, settings)
    if settings.engine == "stack":
        return train_in_stacks(works, settings)
    return _faster(works, settings)(works, settings)


def _faster(works: Sequence[Work], settings: TrainingEngineSettings) -> _Train:
    """Return the faster way, by a few batches of each."""
    if len(works) == 1 or alone_because(works[0]) is not None:
        return train_in_loop
    short = [shortened(work, _CALIBRATION_BATCHES) for work in works]
    alone = short[:_ALONE]
    stacked = short[: min(_STACKED, agents_per_stack(works, settings))]
    loop = _seconds(train_in_loop, alone, settings) / len(alone)
    stack = _seconds(train_stacked, stacked, settings) / len(stacked)
    return train_in_loop if loop <= stack else train_in_stacks


def _seconds(train_some: _Train, works: Sequence[Work], settings: TrainingEngineSettings) -> float:
    """Return the shortest time of a few runs: the first warms up, others may be disturbed."""
    return min(_timed(train_some, works, settings) for _ in range(_CALIBRATION_RUNS))


def _timed(train_some: _Train, works: Sequence[Work], settings: TrainingEngineSettings) -> float:
    start = time.perf_counter()
    train_some(works, settings)
    return time.perf_counter() - start

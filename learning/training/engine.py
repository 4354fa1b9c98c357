"""The door to training: any number of works, in a loop, in stacks, or whichever is faster here.

Loop and stack draw the same chance and do the same steps; their results differ by rounding. So
`auto`, which measures, gives results that may differ in the last bits from machine to machine, and
from run to run where what was measured is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import torch

from fleetledger.learning.training.calibration import (
    Calibration,
    Kind,
    agents_timed,
    by_size,
    shortest,
    versions_here,
)
from fleetledger.learning.training.loop import check, train_alone
from fleetledger.learning.training.memory import agents_per_stack
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.stacking import alone_because, signature
from fleetledger.learning.training.stepping import LEAST_STEPS
from fleetledger.learning.training.work import Trained, Work, shortened

_CALIBRATION_RUNS = 3
_CALIBRATION_BATCHES = 3
_ALONE, _STACKED_ON_HOST, _STACKED_ON_CARD = 2, 8, 32
"""Agents that the loop and the stack are timed on: a card has room for many side by side."""

_Train = Callable[[Sequence[Work], TrainingEngineSettings], list[Trained]]


def kind_of(work: Work, agents: int, settings: TrainingEngineSettings) -> Kind:
    """Return what decides, beside the machine, how fast so many agents' works are trained.

    Losses are dataclasses, whose texts say networks and terms in full. How many classes there are
    by now is no part of it.
    """
    batching, inputs = work.batching, work.data.like
    first = next(iter(work.parameters.values()))
    return {
        "loss": repr(work.loss),
        "trained": f"{len(work.parameters)} tensors",
        "batch": f"{batching.size}, from {batching.smallest} on",
        "inputs": f"{tuple(inputs.shape[1:])} {inputs.dtype}, {work.pictures!r}",
        "precision": f"{first.dtype}, autocast {settings.autocast}, tf32 {settings.tf32}",
        "steps": f"{settings.steps}, channels last {settings.channels_last}",
        "agents": agents,
        "device": _name_of(settings.device),
    }


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
    if settings.engine == "lots":
        alone = len(works) == 1 or alone_because(works[0]) is not None
        return train_in_loop(works, settings) if alone else train_stacked(works, settings)
    if settings.engine == "stack":
        return train_in_stacks(works, settings)
    return _faster(works, settings)(works, settings)


def _faster(works: Sequence[Work], settings: TrainingEngineSettings) -> _Train:
    """Return the faster way, as it was measured here before or else is measured now."""
    if len(works) == 1 or alone_because(works[0]) is not None:
        return train_in_loop
    on_host = torch.device(settings.device).type == "cpu"
    agents = agents_timed(len(works), _STACKED_ON_HOST if on_host else _STACKED_ON_CARD)
    kind = kind_of(works[0], agents, settings)
    kept, versions = settings.calibrations, versions_here()
    found = None if kept is None else kept.find(kind, versions)
    if found is None:
        found = _calibrated(by_size(works, agents), settings)
        if kept is not None:
            kept.keep(kind, versions, found)
    return train_in_stacks if found.stack_is_faster else train_in_loop


def _calibrated(works: Sequence[Work], settings: TrainingEngineSettings) -> Calibration:
    """Time a few batches of the works both ways."""
    # Steps of few batches are not captured, and compiled ones are compiled in the first run.
    batches = _CALIBRATION_BATCHES if settings.steps == "eager" else LEAST_STEPS
    short = [shortened(work, batches) for work in works]
    alone = short[:_ALONE]
    stacked = short[: agents_per_stack(short, settings)]
    loop = shortest(lambda: train_in_loop(alone, settings), _CALIBRATION_RUNS)
    stack = shortest(lambda: train_stacked(stacked, settings), _CALIBRATION_RUNS)
    return Calibration(loop / len(alone), stack / len(stacked))


def _name_of(device: str) -> str:
    place = torch.device(device)
    return str(torch.cuda.get_device_name(place) if place.type == "cuda" else place.type)

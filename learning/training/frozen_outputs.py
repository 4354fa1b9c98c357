"""What frozen networks make of samples, computed once per training instead of in every step.

A teacher is in use, and so is a body before the head that alone is trained: what they make of a
sample depends on it alone, in whatever batch it is. So it is computed for all samples before the
first epoch, unless chance changes the samples in every epoch. How many are computed at once depends
on the work alone, so that numbers are the same wherever an agent is trained. They may differ by
rounding from those of the steps' own batches, as a loop's from a stack's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Work

_BATCHES = 8
"""Of training that go through at once: without gradient a sample has the values of a layer or two
in memory, and those of all layers in training."""


@dataclass(frozen=True, eq=False)
class FrozenPass:
    """A network in use that is to be computed on samples."""

    parameters: Tensors
    buffers: Tensors
    outputs: Callable[[FrozenPass, Tensor], Tensor]
    """From this and inputs (n, ...) to a row for each (n, d)."""


@runtime_checkable
class ForeseeingLoss(Protocol):
    """A loss that can be given beforehand what frozen networks make of the samples."""

    def frozen_passes(self, work: Work) -> Mapping[str, FrozenPass]:
        """Return what it looks at that is the same of a sample in every step, by names of its own.

        Works of one signature have the same names.
        """
        ...

    def foreseen(self, work: Work, found: Tensors) -> Work:
        """Return the work that trains the same without these passes: `found` has their rows."""
        ...


def with_frozen_outputs(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Work]:
    """Return works of one signature that train the same, frozen networks being computed already.

    A network that several works share is computed on the samples of all of them together. Works
    with a full pass of their own before each epoch stay: it may look at everything.
    """
    losses = [work.loss for work in works if isinstance(work.loss, ForeseeingLoss)]
    if len(losses) < len(works) or works[0].prepare is not None or _shaken(works[0]):
        return list(works)
    passes = [loss.frozen_passes(work) for loss, work in zip(losses, works, strict=True)]
    if not passes[0]:
        return list(works)
    found: list[dict[str, Tensor]] = [{} for _ in works]
    for name in passes[0]:
        for members in _sharing([each[name] for each in passes]):
            of = passes[members[0]][name]
            rows = _rows(of, [works[member] for member in members], settings)
            for member, mine in zip(members, rows, strict=True):
                found[member][name] = mine
    three = zip(losses, works, found, strict=True)
    return [loss.foreseen(work, rows) for loss, work, rows in three]


def _shaken(work: Work) -> bool:
    """Return whether chance changes the samples from epoch to epoch."""
    return work.scenes is not None or (work.pictures is not None and work.pictures.shakes)


def _rows(of: FrozenPass, works: Sequence[Work], settings: TrainingEngineSettings) -> list[Tensor]:
    """Return what a network makes of each work's samples."""
    inputs = [work.data.inputs for work in works]
    at_once = _BATCHES * len(works) * works[0].batching.part_size
    infer = Inference(at_once, works[0].pictures, settings.autocast)
    made = infer.over(partial(of.outputs, of), torch.cat(inputs) if len(inputs) > 1 else inputs[0])
    return list(torch.cat(list(made)).split([len(rows) for rows in inputs]))


def _sharing(passes: Sequence[FrozenPass]) -> list[list[int]]:
    """Return the places of passes by the same tensors."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, of in enumerate(passes):
        groups.setdefault((*_leaves(of.parameters), *_leaves(of.buffers)), []).append(place)
    return list(groups.values())


def _leaves(tensors: Tensors) -> Sequence[int]:
    return [id(tensor) for tensor in tensors.values()]

"""How much memory an agent takes in a stack, measured on one step of it, and a stack may take.

That is what the settings say, or a share of what is free when training begins: half of a
card, whose libraries want some for themselves, and an eighth of a host's memory, where other
programs are and more agents in a stack gain nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fleetledger.learning.training.devices import moved_together
from fleetledger.learning.training.free_memory import free_bytes
from fleetledger.learning.training.frozen_outputs import with_frozen_outputs
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.stacking import own_bytes, signature, tree_bytes
from fleetledger.learning.training.work import Work, shortened

_COPIES = 4
"""Of every trained tensor: value, velocity, gradient, and one in passing."""
_PASSES = 2
"""Forward and backward pass together, as a multiple of what the forward pass keeps."""
_MOST_KNOWN = 16
"""Kinds of works of which it is kept what they take."""
_SHARE_OF_CARD, _SHARE_OF_HOST = 2, 8
"""One in so many of the free bytes."""


def stack_bytes(settings: TrainingEngineSettings) -> int:
    """Return the memory that a stack of agents may take."""
    if settings.stack_bytes is not None:
        return settings.stack_bytes
    on_card = torch.device(settings.device).type == "cuda"
    return free_bytes(settings.device) // (_SHARE_OF_CARD if on_card else _SHARE_OF_HOST)


def agents_per_stack(works: Sequence[Work], settings: TrainingEngineSettings) -> int:
    """Return how many agents like these fit the memory of a stack, at least one."""
    largest = max(works, key=lambda work: len(work.data))
    each = _COPIES * tree_bytes(largest.parameters) + own_bytes([work.frozen for work in works])
    measured = _measured(largest, settings)
    each += measured.sample * len(largest.data) + _PASSES * measured.step
    return max(1, stack_bytes(settings) // each)


class WorkMemory(NamedTuple):
    """Bytes of a sample, and those that a first step keeps."""

    sample: int
    step: int


_known: dict[Hashable, WorkMemory] = {}
"""Of this program: a fleet's works are alike in every round."""


def _measured(work: Work, settings: TrainingEngineSettings) -> WorkMemory:
    rows = min(len(work.data), work.batching.size)
    like = (signature(work), rows, settings.arithmetic, settings.steps)
    if like not in _known:
        while len(_known) >= _MOST_KNOWN:
            del _known[next(iter(_known))]
        _known[like] = WorkMemory(sample_bytes(work, settings), kept_bytes(work, settings))
    return _known[like]


def sample_bytes(work: Work, settings: TrainingEngineSettings) -> int:
    """Return the memory of one of an agent's samples, and of what frozen networks make of it."""
    (few,) = moved_together([shortened(work, batches=1)], settings.device)
    (foreseen,) = with_frozen_outputs([few], settings)
    each = tree_bytes(few.data.tensors)
    if foreseen is not few:
        each += tree_bytes(foreseen.data.tensors)
    return -(-each // len(few.data))


def kept_bytes(work: Work, settings: TrainingEngineSettings) -> int:
    """Return what the forward pass of a first step keeps for its backward pass."""
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        train_stacked([shortened(work, batches=1)], settings)
    return sum(kept.values())

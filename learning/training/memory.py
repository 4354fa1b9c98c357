"""How much memory an agent takes in a stack, measured on one step of it, and a stack may take.

That is what the settings say, or a share of what is free when training begins: half of a
card, whose libraries want some for themselves, and an eighth of a host's memory, where other
programs are and more agents in a stack gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from learning.training.devices import moved_together
from learning.training.free_memory import free_bytes
from learning.training.frozen_outputs import with_frozen_outputs
from learning.training.settings import TrainingEngineSettings
from learning.training.stack import train_stacked
from learning.training.stacking import own_bytes, tree_bytes
from learning.training.work import Work, shortened

_COPIES = 4
"""Of every trained tensor: value, velocity, gradient, and one in passing."""
_PASSES = 2
"""Forward and backward pass together, as a multiple of what the forward pass keeps."""
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
    each += data_bytes(largest, settings) + _PASSES * kept_bytes(largest, settings)
    return max(1, stack_bytes(settings) // each)


def data_bytes(work: Work, settings: TrainingEngineSettings) -> int:
    """Return the memory of an agent's samples, and of what frozen networks make of them."""
    (few,) = moved_together([shortened(work, batches=1)], settings.device)
    (foreseen,) = with_frozen_outputs([few], settings)
    each = tree_bytes({**vars(few.data)})
    if foreseen is not few:
        each += tree_bytes({**vars(foreseen.data)})
    return each * len(work.data) // len(few.data)


def kept_bytes(work: Work, settings: TrainingEngineSettings) -> int:
    """Return what the forward pass of a first step keeps for its backward pass."""
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        train_stacked([shortened(work, batches=1)], settings)
    return sum(kept.values())

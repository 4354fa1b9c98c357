"""How much memory an agent takes in a stack, measured on one step of one agent."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from learning.training.settings import TrainingEngineSettings
from learning.training.stack import train_stacked
from learning.training.stacking import own_bytes, tree_bytes
from learning.training.work import Work, shortened

_COPIES = 4
"""Of every trained tensor: value, velocity, gradient, and one in passing."""
_PASSES = 2
"""Forward and backward pass together, as a multiple of what the forward pass keeps."""


def agents_per_stack(works: Sequence[Work], settings: TrainingEngineSettings) -> int:
    """Return how many agents like these fit `settings.stack_bytes`, at least one."""
    largest = max(works, key=lambda work: len(work.data))
    data = largest.data
    each = _COPIES * tree_bytes(largest.parameters) + own_bytes([work.frozen for work in works])
    each += tree_bytes({"inputs": data.inputs, "targets": data.targets, "extras": data.extras})
    each += _PASSES * kept_bytes(largest, settings)
    return max(1, settings.stack_bytes // each)


def kept_bytes(work: Work, settings: TrainingEngineSettings) -> int:
    """Return what the forward pass of a first step keeps for its backward pass."""
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        train_stacked([shortened(work, batches=1)], settings)
    return sum(kept.values())

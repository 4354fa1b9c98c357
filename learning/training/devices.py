"""Where torch computes: which device that is, and work moved there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from learning.errors import TrainingError
from learning.networks.torch_layers import Tensors
from learning.training.work import Data, Trained, Tree, Work


def found_device(asked: str) -> str:
    """Return torch's name of what is asked for: `cpu`, `cuda`, or `auto`, a GPU if there is one.

    Raises `TrainingError` for a GPU that torch does not find.
    """
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise TrainingError("device: cuda, which torch does not find here; set cpu or auto")
    return "cuda" if asked != "cpu" and there else "cpu"


def brought_back(trained: Trained) -> Trained:
    """Return what training made, in the memory of the processor."""
    place = _Place("cpu")
    return replace(
        trained,
        parameters=place.tensors(trained.parameters),
        buffers=place.tensors(trained.buffers),
    )


def moved(work: Work, device: str) -> Work:
    """Return the work with all its tensors on `device`; nothing is copied that is there."""
    return _Place(device).work(work)


def moved_together(works: Sequence[Work], device: str) -> list[Work]:
    """Return the works on `device`; a tensor that several share moves once and stays shared."""
    place = _Place(device)
    return [place.work(work) for work in works]


@dataclass(frozen=True, eq=False)
class _Place:
    device: str
    arrived: dict[int, Tensor] = field(default_factory=dict)
    """What has moved, by the identity of the tensor that it was."""

    def work(self, work: Work) -> Work:
        data = work.data
        return replace(
            work,
            parameters=self.tensors(work.parameters),
            buffers=self.tensors(work.buffers),
            frozen=self._tree(work.frozen),
            data=Data(
                self._tensor(data.inputs), self._tensor(data.targets), self.tensors(data.extras)
            ),
        )

    def _tensor(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self.arrived:
            self.arrived[id(tensor)] = tensor.to(self.device)
        return self.arrived[id(tensor)]

    def tensors(self, tensors: Tensors) -> dict[str, Tensor]:
        return {name: self._tensor(tensor) for name, tensor in tensors.items()}

    def _tree(self, tree: Tree) -> dict[str, Any]:
        return {
            name: self._tree(leaf) if isinstance(leaf, Mapping) else self._tensor(leaf)
            for name, leaf in tree.items()
        }

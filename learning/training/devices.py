"""Where torch computes: which device that is, work moved there, and too little memory there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.conversion import copied_together
from fleetledger.learning.training.work import Data, Tree, Work


def found_device(asked: str) -> str:
    """Return torch's name of what is asked for: `cpu`, `cuda`, or `auto`, a GPU if there is one.

    Raises `TrainingError` for a GPU that torch does not find.
    """
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise TrainingError("device: cuda, which torch does not find here; set cpu or auto")
    return "cuda" if asked != "cpu" and there else "cpu"


@contextmanager
def memory_watched() -> Iterator[None]:
    """Raise `MemoryError` where a GPU has too little memory for the block."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


@contextmanager
def products_in_tf32(*, allowed: bool) -> Iterator[None]:
    """Let a GPU multiply float32 by TF32 in the block, or forbid it; put back what was set before.

    It holds for matrices and convolutions. TF32 has 10 bits after the leading one.
    """
    matmul, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, convolutions.allow_tf32
    matmul.allow_tf32 = convolutions.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, convolutions.allow_tf32 = before


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Run the block on one thread of torch: then the order of additions is the library's own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def moved(work: Work, device: str) -> Work:
    """Return the work with all its tensors on `device`; nothing is copied that is there."""
    return moved_together([work], device)[0]


def moved_together(works: Sequence[Work], device: str) -> list[Work]:
    """Return the works on `device`; a tensor that several share moves once and stays shared.

    Samples that lie there already, among those of the fleet, are gathered there by their rows.
    """
    place = _Place.of(works, device)
    return _gathered([place.work(work) for work in works])


@dataclass(frozen=True, eq=False)
class _Place:
    """Where tensors have arrived, by the identity of those that they were."""

    arrived: Mapping[str, Tensor]

    @classmethod
    def of(cls, works: Sequence[Work], device: str) -> _Place:
        """Return all tensors of the works on `device`, copied there together."""
        every = {str(id(tensor)): tensor for work in works for tensor in _tensors_of(work)}
        return cls(copied_together(every, device))

    def work(self, work: Work) -> Work:
        data = work.data
        return replace(
            work,
            parameters=self._tree(work.parameters),
            buffers=self._tree(work.buffers),
            frozen=self._tree(work.frozen),
            data=Data(
                self._tensor(data.inputs),
                self._tensor(data.targets),
                self._tree(data.extras),
                data.base,
            ),
        )

    def _tensor(self, tensor: Tensor) -> Tensor:
        return self.arrived[str(id(tensor))]

    def _tree(self, tree: Tree) -> dict[str, Any]:
        return {
            name: self._tree(leaf) if isinstance(leaf, Mapping) else self._tensor(leaf)
            for name, leaf in tree.items()
        }


def _gathered(works: list[Work]) -> list[Work]:
    """Return the works with samples of their own; all that are of one array are taken at once."""
    places: dict[int, list[int]] = {}
    for place, work in enumerate(works):
        if work.data.base is not None:
            places.setdefault(id(work.data.base), []).append(place)
    for members in places.values():
        rows = [works[member].data.inputs for member in members]
        base = works[members[0]].data.base
        assert base is not None
        samples = base[rows[0] if len(rows) == 1 else torch.cat(rows)].split([*map(len, rows)])
        for member, own in zip(members, samples, strict=True):
            work = works[member]
            works[member] = replace(work, data=replace(work.data, inputs=own, base=None))
    return works


def _tensors_of(work: Work) -> Iterator[Tensor]:
    data = work.data
    yield from (data.inputs, data.targets)
    for tree in (work.parameters, work.buffers, work.frozen, data.extras):
        yield from _leaves(tree)


def _leaves(tree: Tree) -> Iterator[Tensor]:
    for leaf in tree.values():
        if isinstance(leaf, Mapping):
            yield from _leaves(leaf)
        else:
            yield leaf

"""A step as a function of tensors alone, whose shapes say all that it does.

    loss = StaticStep.of(...)(values, velocities, given, parts, rate)

What a step depends on is either a value that is known before it, and a field of `StaticStep`, or a
tensor among its arguments; no value of a tensor decides what is computed. So it can be compiled as
one graph (`torch.compile(fullgraph=True)`), and captured once and replayed. Values, velocities and
buffers are changed in place. Keys of chance come as tensors, too, and what is drawn by them is
computed in the step.

Batches have their own shapes here, none is padded: a norm that masks rows would take other kernels,
and a convolution's norm knows no mask, so that a full batch would no longer have the bits that it
has alone. Each shape is a step of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.training.batches import BatchPart
from fleetledger.learning.training.chance import (
    DROPOUT,
    LOSS,
    DropoutLayer,
    StepChance,
    spaced,
    subkeys,
)
from fleetledger.learning.training.settings import Arithmetic
from fleetledger.learning.training.sgd import Trainable
from fleetledger.learning.training.steps import Given, slope_of
from fleetledger.learning.training.work import Batch, LossFunction, Sgd, Tree

_OPTIONAL = ("share", "unbiasing")


@dataclass(frozen=True)
class PartForm:
    """What of a batch, or a part of one, is known before its values."""

    share: float
    first: int
    """Row of the batch with which the part begins."""
    chance: bool
    """Whether it may draw."""
    norms_frozen: bool
    all_count: bool

    @classmethod
    def of(cls, part: BatchPart) -> PartForm:
        """Return the form of a part."""
        batch, chance = part.batch, part.batch.chance
        first = 0 if chance is None else chance.first
        return cls(part.share, first, chance is not None, batch.norms_frozen, batch.all_count)

    def part(self, tensors: Tree) -> BatchPart:
        """Return the part of this form with the tensors of `part_tensors`."""
        chance = StepChance(GivenKeys(tensors["keys"]), self.first) if self.chance else None
        batch = Batch(
            inputs=tensors["inputs"],
            targets=tensors["targets"],
            weight=tensors["weight"],
            extras=tensors["extras"],
            dropout=None if chance is None else chance.dropout,
            words=None if chance is None else chance.loss_words,
            norms_frozen=self.norms_frozen,
            buffers_owned=True,
            share=tensors.get("share"),
            unbiasing=tensors.get("unbiasing"),
            all_count=self.all_count,
        )
        return BatchPart(batch, self.share)


def part_tensors(part: BatchPart) -> dict[str, Any]:
    """Return all tensors of a part, by name."""
    batch = part.batch
    tensors: dict[str, Any] = {name: getattr(batch, name) for name in _OPTIONAL}
    keys = {} if batch.chance is None else _keys(batch.chance)
    named = {name: value for name, value in tensors.items() if value is not None}
    return {
        "inputs": batch.inputs,
        "targets": batch.targets,
        "weight": batch.weight,
        "extras": dict(batch.extras),
        "keys": keys,
        **named,
    }


def _keys(chance: StepChance) -> dict[str, Tensor]:
    return {str(purpose): chance.keys.of(purpose, None) for purpose in (DROPOUT, LOSS)}


@dataclass(frozen=True, eq=False)
class GivenKeys:
    """Keys of a step that are tensors of it, by purpose: int64 () or (A,)."""

    keys: Mapping[str, Tensor]

    @property
    def axes(self) -> int:
        """Axes of keys."""
        return int(self.keys[str(DROPOUT)].dim())

    def of(self, purpose: int, place: int | None) -> Tensor:
        """Return the keys of a purpose, or their subkeys."""
        keys = self.keys[str(purpose)]
        return keys if place is None else subkeys(keys, place)

    def spaced(self, start: int, count: int) -> Tensor:
        """Return what words add to a key."""
        return spaced(start, count, self.keys[str(DROPOUT)].device)

    def kept(self, layer: DropoutLayer, first: int, rows: int) -> Tensor:
        """Return which elements are kept."""
        return layer.kept(self, first, rows)


@dataclass(frozen=True)
class StaticStep:
    """A step of a loss and an optimiser on batches of one form; equal ones compute the same."""

    loss: LossFunction
    optimiser: Sgd
    """Without rates: a step's comes with it."""
    names: tuple[str, ...]
    parts: tuple[PartForm, ...]
    arithmetic: Arithmetic

    @classmethod
    def of(
        cls,
        loss: LossFunction,
        optimiser: Sgd,
        names: Sequence[str],
        parts: Sequence[BatchPart],
        arithmetic: Arithmetic,
    ) -> StaticStep:
        """Return the step of such parts."""
        bare = replace(optimiser, rates=())
        forms = tuple(PartForm.of(part) for part in parts)
        return cls(loss, bare, tuple(names), forms, arithmetic)

    def __call__(
        self,
        values: list[Tensor],
        velocities: list[Tensor],
        given: Mapping[str, Tree],
        parts: Sequence[Tree],
        rate: Tensor,
    ) -> Tensor:
        """Train one step at `rate` () in place, and return its loss (...).

        `given` holds trees of `buffers`, `frozen` and `extras`, `parts` what `part_tensors` gives.
        """
        state = Trainable(list(self.names), values, velocities, values[0].new_ones(()))
        made = [form.part(tensors) for form, tensors in zip(self.parts, parts, strict=True)]
        buffers = given["buffers"]
        looked = Given(buffers, given["frozen"], given["extras"])
        slope = slope_of(self.loss, state, looked, made, self.arithmetic)
        state.step(slope.gradients, self.optimiser, rate)
        for name, before in buffers.items():
            if slope.buffers[name] is not before:
                before.copy_(slope.buffers[name])
        return slope.loss


def described(tree: Any) -> Hashable:  # noqa: ANN401 - a tensor, or mappings and sequences of such
    """Return shapes, strides, types and places of all tensors, by their names."""
    if isinstance(tree, Tensor):
        return (tree.shape, tree.stride(), tree.dtype, tree.device)
    if isinstance(tree, Mapping):
        return tuple((name, described(leaf)) for name, leaf in tree.items())
    return tuple(described(leaf) for leaf in tree)


def leaves_of(tree: Any) -> list[Tensor]:  # noqa: ANN401 - as above
    """Return all tensors of a tree, in its order."""
    if isinstance(tree, Tensor):
        return [tree]
    below = tree.values() if isinstance(tree, Mapping) else tree
    return [leaf for one in below for leaf in leaves_of(one)]


def copied(tree: Any) -> Any:  # noqa: ANN401 - as above
    """Return the tree with memory of its own."""
    if isinstance(tree, Tensor):
        return torch.empty_like(tree).copy_(tree)
    if isinstance(tree, Mapping):
        return {name: copied(leaf) for name, leaf in tree.items()}
    return [copied(leaf) for leaf in tree]

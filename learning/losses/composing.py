"""A loss from weighted terms: what `Work` wants, in a few lines.

    loss = ComposedLoss(network, (
        Weighted(1.0, CrossEntropy("scope")),
        Weighted(3.0, Distillation("previous", temperature=2.0)),
    ))

The names are those of the work's `frozen` parts: a mask, a teacher {"parameters", "buffers"}, an
anchor. Terms and losses are values: equal ones let agents share a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from learning.networks.held_rows import joined_rows
from learning.networks.network import Network
from learning.networks.torch_layers import Outputs, Tensors, forward_lazily
from learning.training.work import Batch, Tree

Training = Literal["all", "body", "head", "none"]

_BY_HAND = 4
"""Terms that are added one to the next, as torch's sum of so few does in more kernels."""

FIXED = "fixed"
"""Name of the frozen part with the network's tensors that this work does not train.

First rows of the head may be among them while the later ones are trained; see `split_rows`.
"""


@dataclass(frozen=True, eq=False)
class Step:
    """What a term may look at."""

    network: Network
    parameters: Tensors
    frozen: Tree
    extras: Tensors
    batch: Batch
    outputs: Outputs
    _teachers: dict[str, Outputs] = field(default_factory=dict)
    _made: dict[TermPart, Tensor] = field(default_factory=dict)

    @property
    def stacked(self) -> bool:
        """Whether tensors of the agents have a leading axis."""
        return self.batch.stacked

    @property
    def tensors(self) -> Tensors:
        """All of the network's parameters, trained or not."""
        return joined_rows(self.frozen.get(FIXED, {}), self.parameters)

    def mask(self, name: str | None) -> Tensor | None:
        """Return the frozen mask of that name; None for None."""
        return None if name is None else self.frozen[name]

    def teacher(self, name: str) -> Outputs:
        """Return what the frozen model of that name makes of the batch, computed once."""
        if name not in self._teachers:
            model: Tree = self.frozen[name]
            with torch.no_grad():
                outputs = forward_lazily(
                    self.network,
                    model["parameters"],
                    model["buffers"],
                    self.batch.inputs,
                    self.batch.mode(training=False),
                )
            self._teachers[name] = _in_full(replace(outputs, scores=_still(outputs)))
        return self._teachers[name]

    def once(self, part: TermPart) -> Tensor:
        """Return what `part` makes of this step, computed once for all terms that name it."""
        if part not in self._made:
            self._made[part] = part(self)
        return self._made[part]


class TermPart(Hashable, Protocol):
    """A value that says how to make something of a step; equal ones make the same."""

    def __call__(self, step: Step) -> Tensor:
        """Return what is made."""
        ...


class Term(Protocol):
    """One part of a loss; pure, and equal terms are equal values."""

    def __call__(self, step: Step) -> Tensor:
        """Return the term's value for each agent (...)."""
        ...


@dataclass(frozen=True)
class Weighted:
    """A term and its factor."""

    factor: float
    term: Term


@dataclass(frozen=True)
class ComposedLoss:
    """The sum of weighted terms over one pass of the batch through the network."""

    network: Network
    terms: tuple[Weighted, ...]
    training: Training = "all"
    """The part that is in training; the other, or with `none` the whole network (DCID's
    distillation), is in use: no dropout, normalised by running statistics, which stay."""

    @property
    def stackable(self) -> bool:
        """Whether the network has layers for stacks of agents."""
        return self.network.stackable

    def __call__(
        self, parameters: Tensors, buffers: Tensors, frozen: Tree, extras: Tensors, batch: Batch
    ) -> tuple[Tensor, Tensors]:
        """Return the loss of each agent (...) and the new buffers."""
        outputs = forward_lazily(
            self.network,
            joined_rows(frozen.get(FIXED, {}), parameters),
            buffers,
            batch.inputs,
            batch.mode(training=self.training in ("all", "body")),
            batch.mode(training=self.training in ("all", "head")),
        )
        step = Step(self.network, parameters, frozen, extras, batch, _in_full(outputs))
        values = [_scaled(part, step) for part in self.terms]
        if len(values) > _BY_HAND:
            return torch.stack(values).sum(dim=0), outputs.buffers
        return sum(values[1:], start=values[0]), outputs.buffers


def _scaled(part: Weighted, step: Step) -> Tensor:
    value = part.term(step)
    return value if part.factor == 1 else part.factor * value


def _still(outputs: Outputs) -> Callable[[], Tensor]:
    """Return what makes the scores without gradient."""

    def scores() -> Tensor:
        with torch.no_grad():
            return outputs.logits

    return scores


def _in_full(outputs: Outputs) -> Outputs:
    """Return the outputs in float32 at least: losses of bfloat16 scores are too coarse."""
    features, kind = outputs.features, torch.float32
    if features.dtype == torch.float64:
        kind = torch.float64
    return Outputs(features.to(kind), lambda: outputs.logits.to(kind), outputs.buffers)

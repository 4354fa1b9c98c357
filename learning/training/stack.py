"""The stack: many agents' copies of a small network, trained in one call of batched layers.

Agents are sorted by size, so those with a batch left are always the first ones; the others take no
part in a step: their weights, velocities and buffers are not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.conversion import brought_home
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.batches import BatchPart, real_type
from fleetledger.learning.training.devices import moved_together
from fleetledger.learning.training.frozen_outputs import with_frozen_outputs
from fleetledger.learning.training.loop import prepared
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.sgd import Trainable
from fleetledger.learning.training.stack_batches import StackedData
from fleetledger.learning.training.stacking import (
    Leaf,
    alone_because,
    first_of,
    stack_leaves,
    stack_tensors,
    stack_trees,
)
from fleetledger.learning.training.static_steps import StaticStep, part_tensors
from fleetledger.learning.training.stepping import Call, compiled_once, why_eager
from fleetledger.learning.training.work import Batch, Extras, Trained, Work


def train_stacked(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Trained]:
    """Return what training makes of works that can share a stack, in their order.

    Each has a batch at least, and `signature` is equal for all of them. Raises `TrainingError` for
    work that cannot share a stack.
    """
    reason = alone_because(works[0])
    if reason is not None:
        raise TrainingError(f"engine: {reason}; choose loop or auto")
    with settings.products():
        return _train(works, settings)


def _train(works: Sequence[Work], settings: TrainingEngineSettings) -> list[Trained]:
    by_size = sorted(range(len(works)), key=lambda index: -len(works[index].data))
    there = moved_together([works[index] for index in by_size], settings.device)
    run = _Run.of(with_frozen_outputs(there, settings), settings)
    results = dict(zip(by_size, run.train(), strict=True))
    return [results[index] for index in range(len(works))]


@dataclass(eq=False)
class _Run:
    works: Sequence[Work]
    settings: TrainingEngineSettings
    data: StackedData
    frozen: dict[str, Any]
    state: Trainable
    buffers: dict[str, Leaf]
    """What all agents begin with, the same object, is shared until a norm has measured it."""
    begun: bool = False
    """Whether a step has been taken, and each buffer that changes is the agents' own."""

    @classmethod
    def of(cls, works: Sequence[Work], settings: TrainingEngineSettings) -> _Run:
        parameters = stack_tensors([work.parameters for work in works])
        return cls(
            works,
            settings,
            StackedData.of(works),
            stack_trees([work.frozen for work in works]),
            Trainable.copied(parameters, works[0].optimiser.momentum),
            stack_leaves([work.buffers for work in works]),
        )

    def train(self) -> list[Trained]:
        work, device = self.works[0], self.settings.device
        shape = work.optimiser.epochs, len(self.works)
        losses = torch.zeros(shape, dtype=real_type(work), device=device)
        for epoch, total in enumerate(losses):
            self._epoch(epoch, total)
        told = brought_home(losses.T).tolist()
        return [self._trained(agent, told[agent]) for agent in range(len(self.works))]

    def _epoch(self, epoch: int, total: Tensor) -> None:
        """Train one epoch and add each agent's losses to `total` (A,)."""
        extras, found = self._prepared(epoch)
        work = self.works[0]
        for batch in self.data.batches(epoch, found):
            loss = self._step(batch, extras, work.optimiser.rates[epoch])
            total[: len(batch.weight)].add_(loss)  # `+=` would copy the sum onto itself

    def _step(self, batch: Batch, extras: dict[str, Any], rate: float) -> Tensor:
        """Train the agents of a batch one step and return their losses."""
        work, agents = self.works[0], len(batch.weight)
        call = self._compiled(batch)
        if call is not None:
            return call(*self.tensors(batch, extras), self.state.one * rate)
        part = self.state.first(agents)
        leaves = part.leaves()
        before = first_of(self.buffers, agents)
        with self.settings.arithmetic.precision():
            loss, after = work.loss(
                leaves, before, first_of(self.frozen, agents), first_of(extras, agents), batch
            )
        part.step(part.gradients(loss, leaves), work.optimiser, rate)
        self._keep(before, after)
        self.begun = True
        return loss.detach()

    def static(self, batch: Batch) -> StaticStep:
        """Return a step on batches of this form as a function of tensors."""
        work, alone = self.works[0], BatchPart(batch, 1.0)
        return StaticStep.of(
            work.loss, work.optimiser, self.state.names, [alone], self.settings.arithmetic
        )

    def tensors(self, batch: Batch, extras: dict[str, Any]) -> tuple[Any, ...]:
        """Return what that function takes, but for the rate."""
        agents = len(batch.weight)
        part, trees = self.state.first(agents), (self.buffers, self.frozen, extras)
        buffers, frozen, found = (first_of(tree, agents) for tree in trees)
        given = {"buffers": buffers, "frozen": frozen, "extras": found}
        return part.values, part.velocities, given, [part_tensors(BatchPart(batch, 1.0))]

    def _compiled(self, batch: Batch) -> Call | None:
        """Return the compiled step of a batch with all rows that there can be; None of others."""
        usual = min(self.works[0].batching.size, len(self.works[0].data))
        whole = tuple(batch.weight.shape) == (len(self.works), usual)
        compiles = (
            self.settings.steps == "compiled" and why_eager(self.settings, self.works[0]) is None
        )
        return compiled_once(self.static(batch)) if compiles and whole and self.begun else None

    def _keep(self, before: Tensors, after: Tensors) -> None:
        """Keep the buffers of a step; those that norms changed in place are there already."""
        for name, values in before.items():
            if after[name] is values:
                continue
            if self.buffers[name].own:
                values.copy_(after[name])
            else:  # the first step, which all agents take
                self.buffers[name] = Leaf(after[name], own=True)

    def _prepared(self, epoch: int) -> tuple[dict[str, Any], Tensors]:
        """Return what the agents' full passes find: per agent stacked, per sample in a row."""
        each = [
            prepared(work, *self._tensors(agent), epoch, self.settings)
            for agent, work in enumerate(self.works)
        ]
        return stack_trees([extras.agent for extras in each]), _in_a_row(each)

    def _tensors(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        parameters = {name: values[agent] for name, values in self.state.tensors().items()}
        return parameters, {name: leaf.of(agent) for name, leaf in self.buffers.items()}

    def _trained(self, agent: int, losses: list[float]) -> Trained:
        work = self.works[agent]
        steps = work.batching.count(len(work.data))
        parameters, buffers = self._tensors(agent)
        return Trained(
            parameters,
            buffers,
            len(work.data),
            steps * work.optimiser.epochs,
            tuple(total / steps for total in losses),
        )


def _in_a_row(each: Sequence[Extras]) -> dict[str, Tensor]:
    return {name: torch.cat([extras.samples[name] for extras in each]) for name in each[0].samples}

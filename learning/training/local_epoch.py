"""A local epoch as a method of one's own carries it out, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.batches import StepParts
from fleetledger.learning.training.stepping import Steps
from fleetledger.learning.training.steps import Given, Slope, slope_of


@dataclass(eq=False)
class LocalEpoch:
    """The batches of an epoch in their order, and the ways to take a step.

    `step` does all of it; `gradients` and `descend` are its two halves, between which gradients may
    be changed, and `parameters` may be moved and moved back.
    """

    number: int
    """From 0."""
    rate: float
    """Learning rate of the settings for this epoch."""
    loss: Tensor
    """Sum () of the losses of the steps that were taken."""
    _steps: Steps
    _batches: Iterable[StepParts]
    _slope: Slope | None = None

    def __iter__(self) -> Iterator[StepParts]:
        """Yield the batches; to go through them again gives the same."""
        return iter(self._batches)

    @property
    def parameters(self) -> Tensors:
        """The tensors in training by name, which may be changed in place."""
        return self._steps.state.tensors()

    def step(self, batch: StepParts, rate: float | None = None) -> None:
        """Take a step of the optimiser against the gradients of a batch."""
        self.descend(self.gradients(batch), rate)

    def gradients(self, batch: StepParts) -> dict[str, Tensor]:
        """Return the gradient of the loss of a batch by each tensor in training."""
        steps = self._steps
        given = Given(steps.buffers, steps.work.frozen, steps.extras)
        arithmetic = steps.settings.arithmetic
        self._slope = slope = slope_of(steps.work.loss, steps.state, given, batch, arithmetic)
        return dict(zip(steps.state.names, slope.gradients, strict=True))

    def descend(self, gradients: Mapping[str, Tensor], rate: float | None = None) -> None:
        """Take a step of the optimiser against gradients, by default at the epoch's rate."""
        steps = self._steps
        in_order = [gradients[name] for name in steps.state.names]
        steps.state.step(in_order, steps.work.optimiser, self.rate if rate is None else rate)
        if self._slope is not None:
            steps.buffers, self.loss = self._slope.buffers, self.loss + self._slope.loss

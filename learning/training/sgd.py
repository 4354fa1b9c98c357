"""One step of stochastic gradient descent, the same for an agent and for a stack of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.work import Sgd


@dataclass(eq=False)
class Trainable:
    """Copies of the tensors in training, changed in place step by step, with their velocities."""

    names: Sequence[str]
    values: list[Tensor]
    velocities: list[Tensor]
    one: Tensor
    """1 (), by which a loss is differentiated: made once, where the tensors are."""
    _leaves: dict[str, Tensor] | None = field(default=None, repr=False)

    @classmethod
    def copied(cls, parameters: Tensors, momentum: float) -> Trainable:
        """Return copies at rest."""
        values = [tensor.detach().clone() for tensor in parameters.values()]
        velocities = [torch.zeros_like(value) for value in values] if momentum else []
        return cls(list(parameters), values, velocities, values[0].new_ones(()))

    def first(self, agents: int) -> Trainable:
        """Return views of the first agents of a stack."""
        return Trainable(
            self.names,
            [value[:agents] for value in self.values],
            [velocity[:agents] for velocity in self.velocities],
            self.one,
        )

    def leaves(self) -> dict[str, Tensor]:
        """Return the tensors by name, on the same memory, as leaves to differentiate by."""
        if self._leaves is None:
            leaves = (value.detach().requires_grad_() for value in self.values)
            self._leaves = dict(zip(self.names, leaves, strict=True))
        return self._leaves

    def gradients(self, loss: Tensor, leaves: Tensors) -> list[Tensor]:
        """Return the gradient of the sum of `loss` by each leaf; zero where it does not matter."""
        of, slope = loss, self._slope_of(loss)
        if slope is None and loss.dim():
            of = loss.sum()
        found = torch.autograd.grad(
            of,
            list(leaves.values()),
            grad_outputs=slope,
            allow_unused=True,
            materialize_grads=True,
        )
        return list(found)

    def _slope_of(self, loss: Tensor) -> Tensor | None:
        """Return ones to differentiate by; None on the processor.

        There torch makes them, which costs no kernel. A slope that is given has it import SymPy,
        for a second or two.
        """
        if self.one.device.type == "cpu":
            return None
        one = self.one if loss.dtype == self.one.dtype else self.one.to(loss.dtype)
        return one.expand_as(loss) if loss.dim() else one

    def step(self, gradients: list[Tensor], optimiser: Sgd, rate: float | Tensor) -> None:
        """Go one step against the gradients, all in place: stacks are large.

        A rate that is a tensor () takes a kernel more, and rounds once more.

        v = momentum * v + gradient + weight_decay * w;  w = w - rate * v, or with `nesterov`
        w = w - rate * (gradient + weight_decay * w + momentum * v)

        The processor does it in one pass over the memory, as `torch.optim.SGD` with `fused`; not
        with `nesterov`, where its last bits are others.
        """
        if not isinstance(rate, Tensor) and not optimiser.nesterov and self._in_one_pass:
            self._fused(gradients, optimiser, rate)
            return
        if optimiser.weight_decay:
            decay = optimiser.weight_decay
            gradients = list(torch._foreach_add(gradients, self.values, alpha=decay))
        if self.velocities:
            torch._foreach_mul_(self.velocities, optimiser.momentum)
            torch._foreach_add_(self.velocities, gradients)
            if optimiser.nesterov:
                ahead = torch._foreach_add(gradients, self.velocities, alpha=optimiser.momentum)
                gradients = list(ahead)
        by_velocity = self.velocities and not optimiser.nesterov
        self._move(self.velocities if by_velocity else gradients, -rate)

    def _move(self, directions: list[Tensor], by: float | Tensor) -> None:
        if isinstance(by, Tensor):
            torch._foreach_add_(self.values, torch._foreach_mul(directions, by))
        else:
            torch._foreach_add_(self.values, directions, alpha=by)

    @cached_property
    def _in_one_pass(self) -> bool:
        """Return whether values lie in the processor's memory as the fused kernel reads them."""
        return (
            self.one.device.type == "cpu"
            and all(value.is_contiguous() for value in self.values)
            and _host_fuses()
        )

    def _fused(self, gradients: list[Tensor], optimiser: Sgd, rate: float) -> None:
        torch._fused_sgd_(
            self.values,
            [gradient.contiguous() for gradient in gradients],
            self.velocities,
            weight_decay=optimiser.weight_decay,
            momentum=optimiser.momentum,
            lr=rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return dict(zip(self.names, self.values, strict=True))


@lru_cache(1)
def _host_fuses() -> bool:
    """Return whether this torch has the fused kernel for the processor, as from 2.4 on."""
    one = [torch.ones(1)]
    try:
        Trainable([], one, [], one[0])._fused(one, Sgd(()), 0.0)
    except (AttributeError, NotImplementedError):
        return False
    return True

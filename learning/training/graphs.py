"""A static step captured once, and replayed for whoever takes the same: one call for hundreds.

    graph = CapturedStep.of(step, state, given, parts, graphs)
    graph.load(state, given)        an agent's tensors into the memory that the graph works on
    loss = graph.replay(parts, rate)
    graph.values, graph.buffers     where the step has left them

`CudaGraphs` captures where CUDA is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fleetledger.learning.training.sgd import Trainable
from fleetledger.learning.training.static_steps import StaticStep, copied, leaves_of
from fleetledger.learning.training.work import Tree

_WARMUPS = 3
"""Steps before a capture, as torch asks for: libraries choose their kernels and memory in them."""


class Graphs(Protocol):
    """How calls are captured."""

    def capture(self, call: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Return what carries `call` out again, and the tensor that then holds its result.

        `call` is carried out some times meanwhile, and what it changes is changed so often.
        """
        ...


class CudaGraphs:
    """Captures by `torch.cuda.CUDAGraph`."""

    def capture(self, call: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Return the replay of a graph, and its result."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARMUPS):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
        return graph.replay, result


@dataclass(frozen=True, eq=False)
class CapturedStep:
    """A captured step with the memory that it works on."""

    state: Trainable
    given: dict[str, Any]
    """Buffers, frozen parts and extras."""
    parts: list[Any]
    rate: Tensor
    loss: Tensor
    again: Callable[[], None]

    @classmethod
    def of(
        cls,
        step: StaticStep,
        state: Trainable,
        given: Mapping[str, Tree],
        parts: Sequence[Tree],
        graphs: Graphs,
    ) -> CapturedStep:
        """Return the step captured on memory of its own, of the form of what is given here."""
        values, velocities = copied(state.values), copied(state.velocities)
        own, batch = copied(given), copied(parts)
        rate = torch.zeros_like(state.one)
        again, loss = graphs.capture(lambda: step(values, velocities, own, batch, rate))
        held = Trainable(state.names, values, velocities, state.one)
        return cls(held, own, batch, rate, loss, again)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers that a step changes."""
        held: dict[str, Tensor] = self.given["buffers"]
        return held

    def load(self, state: Trainable, given: Mapping[str, Tree]) -> None:
        """Copy an agent's tensors into the graph's memory."""
        _copy([self.state.values, self.state.velocities], [state.values, state.velocities])
        _copy(self.given, given)

    def replay(self, parts: Sequence[Tree], rate: float) -> Tensor:
        """Train a step on a batch, and return its loss, which the next one overwrites."""
        _copy(self.parts, parts)
        self.rate.fill_(rate)
        self.again()
        return self.loss


def _copy(onto: Any, source: Any) -> None:  # noqa: ANN401 - trees of tensors
    """Copy the tensors of a tree onto those of another, all of a type in one call."""
    pairs = zip(leaves_of(onto), leaves_of(source), strict=True)
    by_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for mine, theirs in pairs:
        if mine is not theirs:
            ours, others = by_type.setdefault(mine.dtype, ([], []))
            ours.append(mine)
            others.append(theirs)
    for ours, others in by_type.values():
        torch._foreach_copy_(ours, others)

"""How an agent's steps are carried out: call by call, compiled, or replayed from a captured graph.

All three do the same arithmetic. `eager` is the reference, and what the others fall back to: of a
batch that is not the agent's usual one, as its last may be, and where there is neither compiler nor
CUDA, which is said once. `compiled` fuses, so last bits differ from it; `captured` launches the
same kernels by one call, and only its rate, which is a tensor, rounds once more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.batches import BatchPart, StepParts
from fleetledger.learning.training.graphs import CapturedStep, CudaGraphs, Graphs
from fleetledger.learning.training.settings import Arithmetic, TrainingEngineSettings
from fleetledger.learning.training.sgd import Trainable
from fleetledger.learning.training.static_steps import StaticStep, described, part_tensors
from fleetledger.learning.training.steps import Given, slope_of
from fleetledger.learning.training.work import Tree, Work

_MOST_KEPT = 8
"""Steps of different form that are kept compiled, or captured, in a program."""
LEAST_STEPS = 8
"""Of an agent's training, below which a form that is not captured yet is not worth it."""

Call = Callable[..., Tensor]


@dataclass(eq=False)
class Steps:
    """An agent's tensors in training, and one step after another by calls of torch."""

    work: Work
    settings: TrainingEngineSettings
    state: Trainable
    buffers: Tensors
    extras: Tensors = field(default_factory=dict)
    """What a pass before the epoch has found for the agent."""

    @classmethod
    def of(cls, work: Work, settings: TrainingEngineSettings) -> Steps:
        """Return the steps of a work that is where it is trained; it stays as it is."""
        work = _laid_out(work, settings.arithmetic)
        state = Trainable.copied(work.parameters, work.optimiser.momentum)
        buffers = {name: value.clone() for name, value in work.buffers.items()}
        own = work.by_hand or work.local_epoch is not None
        kind = cls if own or why_eager(settings, work) is not None else _KINDS[settings.steps]
        return kind(work, settings, state, buffers)

    def begin_epoch(self, extras: Tensors) -> None:
        """Take what the pass before an epoch has found."""
        self.extras = extras

    def step(self, parts: StepParts, rate: float) -> Tensor:
        """Train a step and return its loss (), which the next may overwrite."""
        work = self.work
        given = Given(self.buffers, work.frozen, self.extras)
        slope = slope_of(work.loss, self.state, given, parts, self.settings.arithmetic)
        self.state.step(slope.gradients, work.optimiser, rate)
        self.buffers = slope.buffers
        return slope.loss

    def trained(self) -> tuple[Tensors, Tensors]:
        """Return parameters and buffers, whose memory is the caller's, in their usual order."""
        parameters = self.state.tensors()
        if not self.settings.channels_last:
            return parameters, self.buffers
        return {name: value.contiguous() for name, value in parameters.items()}, self.buffers

    def is_usual(self, parts: StepParts) -> bool:
        """Whether a step has as many rows as the agent's batches have."""
        return parts.rows == min(self.work.batching.size, len(self.work.data))

    def given(self) -> dict[str, Tree]:
        """Return what a static step is given."""
        frozen = self.work.frozen
        return {"buffers": self.buffers, "frozen": frozen, "extras": self.extras}

    def static(self, parts: Sequence[BatchPart]) -> StaticStep:
        """Return the step of such parts as a function of tensors."""
        work, names = self.work, self.state.names
        return StaticStep.of(work.loss, work.optimiser, names, parts, self.settings.arithmetic)


class CompiledSteps(Steps):
    """Steps by `torch.compile`."""

    def step(self, parts: StepParts, rate: float) -> Tensor:
        """Train a step."""
        if not self.is_usual(parts):
            return super().step(parts, rate)
        every = list(parts)
        call = compiled_once(self.static(every))
        if call is None:
            return super().step(parts, rate)
        tensors = [part_tensors(part) for part in every]
        at = self.state.one * rate
        return call(self.state.values, self.state.velocities, self.given(), tensors, at)


class CapturedSteps(Steps):
    """Steps by a graph that is captured once, on its own memory."""

    kept: dict[Any, CapturedStep] = {}  # noqa: RUF012 - one for all agents
    graphs: Graphs = CudaGraphs()
    _graph: CapturedStep | None = None

    def begin_epoch(self, extras: Tensors) -> None:
        """Take what the pass before an epoch has found; the graph is to know it, too."""
        super().begin_epoch(extras)
        self._leave()

    def step(self, parts: StepParts, rate: float) -> Tensor:
        """Train a step."""
        if not self.is_usual(parts):
            return self._between(parts, rate)
        every = list(parts)
        tensors = [part_tensors(part) for part in every]
        if self._graph is None and not self._enter(self.static(every), tensors):
            return super().step(parts, rate)
        assert self._graph is not None
        return self._graph.replay(tensors, rate)

    def trained(self) -> tuple[Tensors, Tensors]:
        """Return parameters and buffers, copied out of the graph's memory."""
        self._leave()
        return super().trained()

    def _between(self, parts: StepParts, rate: float) -> Tensor:
        """Train a step call by call, on the memory of the graph where one is used."""
        loss, graph = super().step(parts, rate), self._graph
        for name, held in graph.buffers.items() if graph is not None else ():
            if self.buffers[name] is not held:
                held.copy_(self.buffers[name])
        self.buffers = self.buffers if graph is None else graph.buffers
        return loss

    def _enter(self, step: StaticStep, tensors: Sequence[Tree]) -> bool:
        """Go on in the memory of a graph; return whether there is one."""
        given = self.given()
        key = (step, described([self.state.values, *given.values(), list(tensors)]))
        graph = self.kept.get(key)
        if graph is None:
            optimiser, count = self.work.optimiser, self.work.batching.count(len(self.work.data))
            if optimiser.epochs * count < LEAST_STEPS:
                return False
            while len(self.kept) >= _MOST_KEPT:
                del self.kept[next(iter(self.kept))]
            graph = CapturedStep.of(step, self.state, given, tensors, self.graphs)
            self.kept[key] = graph
        graph.load(self.state, given)
        self.state, self.buffers, self._graph = graph.state, graph.buffers, graph
        return True

    def _leave(self) -> None:
        """Go on in memory of one's own."""
        if self._graph is None:
            return
        held = self.state
        values, velocities = (
            [one.clone() for one in own] for own in (held.values, held.velocities)
        )
        self.state = Trainable(held.names, values, velocities, held.one)
        self.buffers = {name: value.clone() for name, value in self.buffers.items()}
        self._graph = None


_KINDS: Mapping[str, type[Steps]] = {
    "eager": Steps,
    "compiled": CompiledSteps,
    "captured": CapturedSteps,
}


def _laid_out(work: Work, arithmetic: Arithmetic) -> Work:
    """Return the work with kernels of convolutions, and those of teachers, as these are to read."""
    if not arithmetic.channels_last:
        return work

    def tree(of: Tree) -> dict[str, Any]:
        return {
            name: tree(leaf) if isinstance(leaf, Mapping) else arithmetic.laid_out(leaf)
            for name, leaf in of.items()
        }

    return replace(work, parameters=tree(work.parameters), frozen=tree(work.frozen))


_COMPILED: dict[StaticStep, Call] = {}
"""Of this program, as torch's own cache is."""


def compiled_once(step: StaticStep) -> Call | None:
    """Return the compiled step; None of one more than are kept."""
    if step not in _COMPILED and len(_COMPILED) < _MOST_KEPT:
        _COMPILED[step] = compiled(step)
    return _COMPILED.get(step)


def compiled(step: StaticStep, backend: str = "inductor") -> Call:
    """Return the step as one compiled graph."""

    def call(*tensors: Any) -> Tensor:  # noqa: ANN401 - as of the step
        return step(*tensors)

    made = torch.compile(call, fullgraph=True, dynamic=False, backend=backend)

    def carried_out(*tensors: Any) -> Tensor:  # noqa: ANN401 - as of the step
        # Gradients are taken within the step, and each form of step is a graph of its own.
        with torch._dynamo.config.patch(trace_autograd_ops=True, recompile_limit=4 * _MOST_KEPT):
            found: Tensor = made(*tensors)
        return found

    return carried_out


def why_eager(settings: TrainingEngineSettings, work: Work) -> str | None:
    """Return why steps are carried out call by call, though the settings ask for more; else None.

    It is said as a warning, too.
    """
    reason = None
    if settings.steps != "eager" and not getattr(work.loss, "traceable", True):
        reason = (
            f"steps: {settings.steps}, and the network is a torch module from outside; they are "
            "carried out one call after another"
        )
    if settings.steps == "captured" and not _captures(settings):
        reason = (
            f"steps: captured, and device {settings.device!r} has no CUDA graphs; "
            "they are carried out one call after another"
        )
    if settings.steps == "compiled" and not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        reason = (
            f"steps: compiled, which torch {torch.__version__} cannot do to a whole step; they are "
            "carried out one call after another. Install a newer torch"
        )
    if reason is not None:
        warnings.warn(reason, RuntimeWarning, stacklevel=2)
    return reason


def _captures(settings: TrainingEngineSettings) -> bool:
    there = torch.device(settings.device).type == "cuda"
    return there or not isinstance(CapturedSteps.graphs, CudaGraphs)

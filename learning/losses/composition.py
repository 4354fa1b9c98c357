"""A loss from weighted terms: what `Work` wants, in a few lines.

    loss = ComposedLoss(network, (
        Weighted(1.0, CrossEntropy("scope")),
        Weighted(3.0, Distillation("previous", temperature=2.0)),
    ))

The names are those of the work's `frozen` parts: a mask, a teacher {"parameters", "buffers"}, an
anchor. Terms and losses are values: equal ones let agents share a stack.

What frozen networks make of a sample is the same in every step unless chance changes the sample:
`frozen_passes` says what that is, and `foreseen` trains on when it was computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from fleetledger.learning.networks.fixed_features import IdentityBody
from fleetledger.learning.networks.head import is_of_head
from fleetledger.learning.networks.held_rows import joined_rows
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.torch_layers import Mode, Outputs, Tensors, forward_lazily
from fleetledger.learning.training.frozen_outputs import FrozenPass
from fleetledger.learning.training.work import Batch, Tree, Work

Training = Literal["all", "body", "head", "none"]
Lesson = Literal["features", "logits"]
"""What a term looks at of a teacher."""

_BY_HAND = 4
"""Terms that are added one to the next, as torch's sum of so few does in more kernels."""

FIXED = "fixed"
"""Name of the frozen part with the network's tensors that this work does not train.

First rows of the head may be among them while the later ones are trained; see `split_rows`.
"""
_BODY = "body.features"
_MODEL = {"parameters", "buffers"}


@dataclass(frozen=True, eq=False)
class Step:
    """What a term may look at."""

    network: Network
    parameters: Tensors
    frozen: Tree
    extras: Tensors
    batch: Batch
    outputs: Outputs
    terms: tuple[Weighted, ...] = ()
    """Those of the loss that the settings ask for."""
    watched: frozenset[str] = frozenset()
    """Layers whose outputs are asked for."""
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

    @property
    def features(self) -> Tensor:
        """The batch's features (..., n, d)."""
        return self.outputs.features

    @property
    def logits(self) -> Tensor:
        """The batch's logits (..., n, C)."""
        return self.outputs.logits

    @property
    def targets(self) -> Tensor:
        """The batch's rows of the head (..., n)."""
        return self.batch.targets

    def composed(self) -> Tensor:
        """Return the sum of the weighted terms for each agent (...)."""
        values = [_scaled(part, self) for part in self.terms]
        if len(values) > _BY_HAND:
            return torch.stack(values).sum(dim=0)
        return sum(values[1:], start=values[0])

    @property
    def inner(self) -> Tensors:
        """Outputs (..., n, ...) of the layers that are asked for, by name."""
        return self.outputs.inner

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
                    replace(self.batch.mode(training=False), inner=self.watched),
                )
            self._teachers[name] = _in_full(replace(outputs, scores=_still(outputs)))
        return self._teachers[name]

    def taught(self, name: str, lesson: Lesson) -> Tensor:
        """Return a teacher's features or logits (..., n, d): computed unless they are foreseen."""
        foreseen = self.batch.extras.get(f"{name}.{lesson}")
        return _of(lesson, self.teacher(name)) if foreseen is None else foreseen

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


@runtime_checkable
class TaughtTerm(Protocol):
    """A term that looks at a frozen model. All that do say so: one that is foreseen is gone."""

    @property
    def teacher(self) -> str | None:
        """Its name; None where this one looks at none."""
        ...

    @property
    def lesson(self) -> Lesson:
        """What is looked at, by `Step.taught`."""
        ...


class OwnLoss(Hashable, Protocol):
    """A value that says how a loss is made of a step in place of the sum of its terms."""

    @property
    def stacks(self) -> bool:
        """Whether it takes steps of several agents, and returns a value for each."""
        ...

    def loss(self, step: Step) -> Tensor:
        """Return the loss for each agent (...)."""
        ...


@runtime_checkable
class InnerTerm(Protocol):
    """A term that looks at outputs of layers, `step.inner[name]`; others pay nothing.

    Of a module from outside any submodule is one (`layer3`, `blocks.2.attention`), of the package's
    networks what has tensors (`conv0`). A teacher's are `step.teacher(name).inner`.
    """

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of the layers."""
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
    own: OwnLoss | None = None
    """What a method of one's own makes of the step instead of the sum; equal ones make the same."""
    inner: frozenset[str] = field(init=False, compare=False, repr=False)
    """Layers whose outputs a term, or an own loss, asks for: found once, since every step asks."""

    def __post_init__(self) -> None:
        asking: list[object] = [*(part.term for part in self.terms), self.own]
        named = (name for one in asking if isinstance(one, InnerTerm) for name in one.inner)
        object.__setattr__(self, "inner", frozenset(named))

    @property
    def stackable(self) -> bool:
        """Whether the network has layers for stacks of agents, and an own loss takes them."""
        return self.network.stackable and (self.own is None or self.own.stacks)

    @property
    def traceable(self) -> bool:
        """Whether a step may be compiled or captured: one of a module from outside may not."""
        return not isinstance(self.network.body, ModuleBody)

    def __call__(
        self, parameters: Tensors, buffers: Tensors, frozen: Tree, extras: Tensors, batch: Batch
    ) -> tuple[Tensor, Tensors]:
        """Return the loss of each agent (...) and the new buffers."""
        inner, fixed = self.inner, frozen.get(FIXED)
        body = head = batch.mode(training=self.training in ("all", "body"))
        if self.training != "all":
            head = batch.mode(training=self.training == "head")
        outputs = forward_lazily(
            self.network,
            joined_rows(fixed, parameters) if fixed else parameters,
            buffers,
            batch.inputs,
            replace(body, inner=inner) if inner else body,
            head,
        )
        full = _in_full(outputs)
        step = Step(self.network, parameters, frozen, extras, batch, full, self.terms, inner)
        loss = step.composed() if self.own is None else self.own.loss(step)
        return loss, outputs.buffers

    def frozen_passes(self, work: Work) -> dict[str, FrozenPass]:
        """Return what terms look at of teachers, and the features of a body that does not move.

        Nothing where a term looks at inner layers: those are in no row of a sample.
        """
        passes: dict[str, FrozenPass] = {}
        if self.own is not None or self.inner:
            return passes  # an own loss may look at any model
        for term in (part.term for part in self.terms):
            if isinstance(term, TaughtTerm) and term.teacher is not None:
                model, use = work.frozen[term.teacher], partial(self._in_use, term.lesson)
                name = f"{term.teacher}.{term.lesson}"
                passes[name] = FrozenPass(model["parameters"], model["buffers"], use)
        if self.training == "head" and all(map(is_of_head, work.parameters)):
            tensors = {**work.frozen.get(FIXED, {}), **work.parameters}
            use = partial(self._in_use, "features")
            passes[_BODY] = FrozenPass(tensors, work.buffers, use)
        return passes

    def foreseen(self, work: Work, found: Tensors) -> Work:
        """Return the work with what its passes made of the samples, and without the models.

        Where that are the body's features, they are its inputs, and the body passes them on.
        """
        lessons = {name: rows for name, rows in found.items() if name != _BODY}
        data = replace(work.data, extras={**work.data.extras, **lessons})
        frozen = {name: leaf for name, leaf in work.frozen.items() if not _is_model(leaf)}
        if _BODY not in found:
            return replace(work, data=data, frozen=frozen)
        fixed, body = frozen.get(FIXED, {}), IdentityBody(self.network.width)
        return replace(
            work,
            data=replace(data, inputs=found[_BODY]),
            frozen={**frozen, FIXED: {name: fixed[name] for name in filter(is_of_head, fixed)}},
            loss=replace(self, network=replace(self.network, body=body)),
            pictures=None,
        )

    def _in_use(self, lesson: Lesson, model: FrozenPass, inputs: Tensor) -> Tensor:
        network, mode = self.network, Mode()
        outputs = forward_lazily(network, model.parameters, model.buffers, inputs, mode)
        return _of(lesson, _in_full(outputs))


def _of(lesson: Lesson, outputs: Outputs) -> Tensor:
    return outputs.features if lesson == "features" else outputs.logits


def _is_model(leaf: Any) -> bool:  # noqa: ANN401 - a tensor, or a mapping
    return isinstance(leaf, Mapping) and leaf.keys() == _MODEL


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
    rows = None if outputs.rows is None else lambda: outputs.row_inputs.to(kind)
    inner = {name: values.to(kind) for name, values in outputs.inner.items()}
    return Outputs(features.to(kind), lambda: outputs.logits.to(kind), outputs.buffers, rows, inner)

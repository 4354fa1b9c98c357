"""The models that a training looks at, as tensors: the one that was sent, and the old one.

Devices of one process that were sent the same get the same tensors, so that a stack of them holds
what none of them trains once. Nobody changes these tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from learning.networks.conversion import to_tensors
from methods.lga.assignment import NEW_MODEL, OLD_MODEL, LgaAssignment
from methods.lga.holdings import stages_of
from methods.lga.memory import Memory
from methods.lga.messages import received
from methods.network_weights import Arrays, decode_weights, first_rows
from methods.training_half import Order
from schemas.values import ClassName

_KEPT = 2
"""Models of a kind that stay in memory."""


@dataclass(frozen=True, eq=False)
class Model:
    """A network by name of its tensors, and the arrays that they came from."""

    arrays: Arrays
    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    names: tuple[ClassName, ...]
    """Rows of its head: the first ones of the head that is trained."""


def sent_model(assignment: LgaAssignment, order: Order) -> Model:
    """Return what training begins with; raise `MethodError` for a file that is none."""
    asked = order.round
    return _sent(assignment, order.weights, asked.weights_class_names, asked.class_names)


def old_model(assignment: LgaAssignment, order: Order, memory: Memory) -> Model | None:
    """Return the old model, or None where there is none; raise `MethodError`.

    A device that enters a task takes `new-model`, the best of the task that the fleet comes from,
    and any other device `old-model`. One that enters late finds in `new-model` the task that it
    enters, with rows for its classes: then it takes `old-model` like the others.
    """
    if not assignment.settings.needs_old_model:
        return None
    if memory.entered and NEW_MODEL in order.extras:
        model = _named(assignment, order, NEW_MODEL)
        stages = stages_of(order)
        if model.names and all(stages[name] < order.stage for name in model.names):
            return model
    if OLD_MODEL not in order.extras:
        return None
    model = _named(assignment, order, OLD_MODEL)
    return model if model.names else None


def _named(assignment: LgaAssignment, order: Order, extra: str) -> Model:
    asked = order.round
    aliases = tuple(sorted(asked.aliases.items()))
    return _old(assignment, order.extras[extra], asked.class_names, aliases)


@lru_cache(_KEPT)
def _sent(
    assignment: LgaAssignment,
    weights: bytes,
    known: tuple[ClassName, ...],
    names: tuple[ClassName, ...],
) -> Model:
    arrays = received(assignment, weights, known, names)
    return Model(arrays, *to_tensors(arrays), names)


@lru_cache(_KEPT)
def _old(
    assignment: LgaAssignment,
    weights: bytes,
    names: tuple[ClassName, ...],
    aliases: tuple[tuple[ClassName, ClassName], ...],
) -> Model:
    """Return an old model with the rows that the head begins with; it may know no others."""
    arrays, written = decode_weights(weights, assignment.network)
    arrays, first = first_rows(arrays, written, names, dict(aliases))
    return Model(arrays, *to_tensors(arrays), first)

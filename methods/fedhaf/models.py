"""The models that a training looks at, as tensors: the one that was sent, and the old one.

Devices of one process that were sent the same get the same tensors, so that a stack of them holds
what none of them trains once. Nobody changes these tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.head import ROWS
from fleetledger.methods.fedhaf.assignment import OLD_MODEL, FedHafAssignment
from fleetledger.methods.fedhaf.messages import received
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.network_weights import Arrays, decode_weights
from fleetledger.schemas.values import ClassName

_KEPT = 2
"""Rounds whose models stay in memory."""


@dataclass(frozen=True, eq=False)
class Model:
    """Adapter and head: parameters and buffers by name, and the arrays that they came from."""

    arrays: Arrays
    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    known: Tensor
    """Mask (C,) of the head's rows that the model has itself."""

    @classmethod
    def of(cls, arrays: Arrays, known: Sequence[bool], device: str) -> Model:
        """Return the model of some arrays, on a device."""
        return cls(arrays, *to_tensors(arrays, device), torch.tensor(known, device=device))


def sent_model(
    assignment: FedHafAssignment, instruction: FitInstruction, device: str = "cpu"
) -> Model:
    """Return what training begins with; raise `MethodError` for a file that is none."""
    round_ = instruction.round
    rows = (round_.weights_class_names, round_.class_names)
    return _sent(assignment, instruction.weights, *rows, round_.round_of_stage, device)


def old_model(
    assignment: FedHafAssignment, instruction: FitInstruction, device: str = "cpu"
) -> Model | None:
    """Return theta_{t-1}, or None before the second stage; raise `MethodError`.

    It has a row for every class of the order; those that it does not know are zero and not in
    `known`. Its file may have names that classes had before.
    """
    if OLD_MODEL not in instruction.extras:
        return None
    names, aliases = instruction.round.class_names, tuple(sorted(instruction.round.aliases.items()))
    return _old(assignment, instruction.extras[OLD_MODEL], names, aliases, device)


@lru_cache(_KEPT)
def _sent(
    assignment: FedHafAssignment,
    weights: bytes,
    known: tuple[ClassName, ...],
    names: tuple[ClassName, ...],
    round_of_stage: int,
    device: str,
) -> Model:
    arrays = received(assignment, weights, known, names, round_of_stage)
    return Model.of(arrays, [True] * len(names), device)


@lru_cache(_KEPT)
def _old(
    assignment: FedHafAssignment,
    weights: bytes,
    names: tuple[ClassName, ...],
    aliases: tuple[tuple[ClassName, ClassName], ...],
    device: str,
) -> Model:
    arrays, written = decode_weights(weights, assignment.network)
    meanings = dict(aliases)
    rows = [meanings.get(name, name) for name in written]
    known = [name in rows for name in names]
    places = [rows.index(name) for name in names if name in rows]
    whole = {name: _spread(array, places, known) for name, array in arrays.items() if name in ROWS}
    return Model.of({**arrays, **whole}, known, device)


def _spread(array: np.ndarray, places: list[int], known: list[bool]) -> np.ndarray:
    """Return rows for all classes: those of the array at its places, zeros elsewhere."""
    rows = np.zeros((len(known), *array.shape[1:]), array.dtype)
    rows[known] = array[places]
    return rows

"""Models of a fit instruction: the one that is sent, and earlier ones under today's names.

For methods whose devices distil from an earlier model of the fleet. Needs torch. A model is read
once and stays in memory, on the device where it is computed, while rounds use it, for each device
of a process that asks for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from torch import Tensor

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.network import AnyNetwork
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.network_weights import Arrays, decode_weights
from fleetledger.schemas.values import ClassName

_KEPT = 2
"""Models of a kind that stay in memory."""

Names = Sequence[ClassName]


@dataclass(frozen=True, eq=False)
class Model:
    """A network by name of its tensors, and the arrays that they came from."""

    arrays: Arrays
    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    names: tuple[ClassName, ...]
    """Classes with a row: the first ones of the head that is trained."""


class NetworkAssignment(Hashable, Protocol):
    """An assignment that names a network; equal ones have equal hashes."""

    @property
    def network(self) -> AnyNetwork:
        """The network that is trained."""


A_contra = TypeVar("A_contra", bound=NetworkAssignment, contravariant=True)


class Received(Protocol[A_contra]):
    """What devices begin with: the weights of a file, with the head's new rows."""

    def __call__(self, assignment: A_contra, weights: bytes, known: Names, names: Names) -> Arrays:
        """Return the arrays; `known` are the rows that the file has by now."""


class FirstRows(Protocol):
    """The rows of an earlier head with which today's begins, and which these are."""

    def __call__(
        self, arrays: Arrays, written: Names, names: Names, aliases: Mapping[ClassName, ClassName]
    ) -> tuple[Arrays, tuple[ClassName, ...]]:
        """Return the arrays with these rows alone; `written` are the names in the file."""


class InstructionModels(Generic[A_contra]):
    """Reads models of orders; both functions are the method's own."""

    def __init__(self, received: Received[A_contra], first_rows: FirstRows) -> None:
        @lru_cache(_KEPT)
        def sent(
            assignment: A_contra,
            weights: bytes,
            known: tuple[ClassName, ...],
            names: tuple[ClassName, ...],
            device: str,
        ) -> Model:
            arrays = received(assignment, weights, known, names)
            return Model(arrays, *to_tensors(arrays, device), names)

        @lru_cache(_KEPT)
        def earlier(
            assignment: A_contra,
            weights: bytes,
            names: tuple[ClassName, ...],
            aliases: tuple[tuple[ClassName, ClassName], ...],
            device: str,
        ) -> Model:
            arrays, written = decode_weights(weights, assignment.network)
            arrays, first = first_rows(arrays, written, names, dict(aliases))
            return Model(arrays, *to_tensors(arrays, device), first)

        self._sent, self._earlier = sent, earlier

    def sent(self, assignment: A_contra, instruction: FitInstruction, device: str) -> Model:
        """Return what training begins with; raise `MethodError` for a file that is none."""
        round_ = instruction.round
        rows = (round_.weights_class_names, round_.class_names)
        return self._sent(assignment, instruction.weights, *rows, device)

    def earlier(
        self, assignment: A_contra, instruction: FitInstruction, weights: bytes, device: str
    ) -> Model:
        """Return a model of before with the rows that the head begins with; raise `MethodError`.

        It may know none of them.
        """
        round_ = instruction.round
        aliases = tuple(sorted(round_.aliases.items()))
        return self._earlier(assignment, weights, round_.class_names, aliases, device)

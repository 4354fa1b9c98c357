"""What both halves are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

from pydantic import Field, ValidationError

from learning.networks.mlp import Mlp
from learning.networks.network import Network
from methods.answers import AnswerFrame
from methods.errors import MethodError
from methods.network_weights import decode_weights, grown
from schemas.message import Message, Strict, explain
from schemas.rounds import TRAIN
from schemas.values import ClassName


class EchoSettings(Strict):
    """The size of the network."""

    hidden: tuple[int, ...]
    seed: int = 1


class EchoAssignment(Message):
    """Settings, and the shape of the pictures."""

    kind: ClassVar[str] = "echo-assignment"
    settings: EchoSettings
    input_shape: tuple[int, int, int] = Field(min_length=3, max_length=3)

    @property
    def network(self) -> Network:
        """A multilayer perceptron, without normalisation."""
        shape = self.input_shape
        return Network(Mlp(prod(shape), self.settings.hidden, normalised=False, axes=len(shape)))

    @property
    def opening_phases(self) -> tuple[str, ...]:
        """Nothing comes before a stage's rounds."""
        return ()

    @property
    def round_phases(self) -> tuple[str, ...]:
        """One phase."""
        return (TRAIN,)

    @property
    def closing_phases(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def logit_scale(self) -> float:
        """A plain softmax."""
        return 1.0


def read_assignment(body: Mapping[str, Any]) -> EchoAssignment:
    """Return an assignment from JSON values; raise `MethodError` naming field and value."""
    try:
        return EchoAssignment.model_validate(body)
    except ValidationError as error:
        raise MethodError(f"assignment: {explain(error)}") from error


def frame_of(
    assignment: EchoAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
) -> AnswerFrame:
    """Return what answers look like, around the sent weights with the head's new rows."""
    arrays, _ = decode_weights(weights, assignment.network)
    return AnswerFrame(grown(arrays, known, names, assignment.settings.seed))

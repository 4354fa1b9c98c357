"""What both halves are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

from pydantic import Field

from learning.networks.mlp import Mlp
from learning.networks.network import Network
from methods.answers import AnswerFrame
from methods.network_weights import decode_weights, grown
from methods.training_assignment import TrainingAssignment
from schemas.message import Strict
from schemas.values import ClassName


class EchoSettings(Strict):
    """The size of the network."""

    hidden: tuple[int, ...]
    seed: int = 1


class EchoAssignment(TrainingAssignment):
    """Settings, and the shape of the pictures."""

    kind: ClassVar[str] = "echo-assignment"
    settings: EchoSettings
    input_shape: tuple[int, int, int] = Field(min_length=3, max_length=3)

    @property
    def network(self) -> Network:
        """A multilayer perceptron, without normalisation."""
        shape = self.input_shape
        return Network(Mlp(prod(shape), self.settings.hidden, normalised=False, axes=len(shape)))


def read_assignment(body: Mapping[str, Any]) -> EchoAssignment:
    """Return an assignment from JSON values; raise `MethodError` naming field and value."""
    return EchoAssignment.told(body)


def frame_of(
    assignment: EchoAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
) -> AnswerFrame:
    """Return what answers look like, around the sent weights with the head's new rows."""
    arrays, _ = decode_weights(weights, assignment.network)
    return AnswerFrame(grown(arrays, known, names, assignment.settings.seed))

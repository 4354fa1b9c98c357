"""Echo at the coordinator: the exact mean, as `methods.rounds` takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from methods.echo.messages import EchoAssignment, frame_of, read_assignment

from learning.networks.network import Network
from methods.answers import AnswerFrame, AnswerSum
from methods.network_weights import Arrays, decode_weights, encode_weights
from methods.once import OncePerRound
from methods.training_half import Asked, Combined, Given, Summing
from schemas.values import ClassName

__all__ = [
    "assign",
    "check",
    "combine",
    "first_weights",
    "network_of",
    "read_assignment",
    "summing",
]

FRAME = OncePerRound[AnswerFrame]()


def assign(settings: Mapping[str, Any], input_shape: tuple[int, int, int]) -> EchoAssignment:
    """Return the assignment of a lineage."""
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def first_weights(assignment: EchoAssignment) -> bytes:
    """Return the network without a row in its head."""
    return encode_weights(assignment.network.initial(assignment.settings.seed, ()), ())


def check(assignment: EchoAssignment, payload: bytes, asked: Asked) -> None:
    """Raise `ContributionError` unless the payload answers what was asked."""
    _frame(assignment, asked).check(payload)


def summing(assignment: EchoAssignment, asked: Asked, most: int) -> Summing:
    """Return the empty sum of at most so many answers."""
    return _frame(assignment, asked).summing(most, weighted=True)


def combine(
    assignment: EchoAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean, weighted by samples."""
    if isinstance(answers, AnswerSum):
        mean = answers.mean()
    else:
        mean = _frame(assignment, asked).mean(answers, weighted=True)
    weights = encode_weights(mean.arrays, asked.class_names)
    return Combined(weights, {}, mean.aggregate, mean.samples, mean.client_drift)


def network_of(
    assignment: EchoAssignment, weights: bytes
) -> tuple[Network, Arrays, tuple[ClassName, ...]]:
    """Return network, tensors and rows of the head, to be exported."""
    arrays, names = decode_weights(weights, assignment.network)
    return assignment.network, arrays, names


def _frame(assignment: EchoAssignment, asked: Asked) -> AnswerFrame:
    names = asked.weights_class_names, asked.class_names
    return FRAME(asked, assignment, lambda: frame_of(assignment, asked.weights, *names))

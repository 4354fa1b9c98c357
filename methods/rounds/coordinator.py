"""Rounds at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k n_k theta_k / sum_k n_k, FedAvg's mean, over integers; and, after
                    a stage, the old model and the Fisher diagonal that some losses need

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from learning.networks.network import Network
from methods.answers import AnswerFrame, Arrays
from methods.network_weights import decode_weights, encode_weights
from methods.once import OncePerRound
from methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment, read_assignment
from methods.rounds.fisher import consolidated, encode_fisher
from methods.rounds.messages import frame_of, received
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

_FRAME = OncePerRound[AnswerFrame]()
"""Of the newest round: each of its answers is checked against it."""


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> RoundsAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong."""
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def first_weights(assignment: RoundsAssignment) -> bytes:
    """Return the network before anybody trained; its head has no row yet."""
    return encode_weights(assignment.network.initial(assignment.settings.seed, ()), ())


def check(assignment: RoundsAssignment, payload: bytes, asked: Asked) -> None:
    """Raise `ContributionError` unless the payload answers what was asked.

    Tensors, shapes and types are those of the network, and nothing leaves the grid.
    """
    _frame(assignment, asked).check(payload)


def summing(assignment: RoundsAssignment, asked: Asked, most: int) -> Summing:
    """Return the empty sum of at most so many answers; raise `MethodError` if it may not fit."""
    return _frame(assignment, asked).summing(most, weighted=_is_weighted(assignment))


def combine(
    assignment: RoundsAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean of answers, at least one, and what follows from it.

    Raises `MethodError` where their sum could not be exact.
    """
    mean = _frame(assignment, asked).mean(answers, weighted=_is_weighted(assignment))
    weights, extras = _what_follows(assignment, asked, mean.arrays)
    return Combined(weights, extras, mean.aggregate, mean.samples, mean.client_drift)


def network_of(
    assignment: RoundsAssignment, weights: bytes
) -> tuple[Network, Arrays, tuple[ClassName, ...]]:
    """Return network, tensors and rows of the head, to be exported."""
    arrays, names = decode_weights(weights, assignment.network)
    return assignment.network, arrays, names


def _is_weighted(assignment: RoundsAssignment) -> bool:
    return assignment.settings.averaging == "samples"


def _frame(assignment: RoundsAssignment, asked: Asked) -> AnswerFrame:
    return _FRAME(asked, assignment, lambda: _made_frame(assignment, asked))


def _made_frame(assignment: RoundsAssignment, asked: Asked) -> AnswerFrame:
    sent = received(assignment, asked.weights, asked.weights_class_names, asked.class_names)
    return frame_of(assignment, sent, asked.phase)


def _what_follows(
    assignment: RoundsAssignment, asked: Asked, mean: Arrays
) -> tuple[bytes, Mapping[str, bytes]]:
    """Return the fleet's weights and the files that devices are given from here on."""
    names, extras = asked.class_names, dict(asked.extras)
    if asked.phase == FISHER:
        weights = asked.weights
        extras[FISHER] = encode_fisher(consolidated(asked.extras.get(FISHER), mean, names), names)
    else:
        weights = encode_weights(mean, names)
    if asked.ends_stage and assignment.settings.needs_old_model:
        extras[OLD_MODEL] = weights
    return weights, extras

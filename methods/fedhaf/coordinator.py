"""FedHAF at the coordinator: check answers, and average them exactly.

    first_weights   adapter and head before anybody trained, from a seed
    combine         (15) theta = sum_k w_k theta_k, over integers; and, after a stage, the old
                    model theta_{t-1} of the next

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from learning.networks.network import Network
from methods.answers import AnswerFrame, Arrays
from methods.fedhaf.assignment import OLD_MODEL, FedHafAssignment, read_assignment
from methods.fedhaf.messages import frame_of, received
from methods.network_weights import decode_weights, encode_weights
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

_FRAME = OncePerRound[AnswerFrame]()
"""Of the newest round: each of its answers is checked against it."""


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> FedHafAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong.

    `input_shape` is (d,), the number of the backbone's features.
    """
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def first_weights(assignment: FedHafAssignment) -> bytes:
    """Return the network before anybody trained; its head has no row yet."""
    return encode_weights(assignment.network.initial(assignment.settings.seed, ()), ())


def check(assignment: FedHafAssignment, payload: bytes, asked: Asked) -> None:
    """Raise `ContributionError` unless the payload answers what was asked.

    Tensors, shapes and types are those of adapter and head, its size is bounded by theirs, and no
    running variance is below zero.
    """
    _frame(assignment, asked).check(payload)


def summing(assignment: FedHafAssignment, asked: Asked, most: int) -> Summing:
    """Return the empty sum of at most so many answers; raise `MethodError` if it may not fit."""
    return _frame(assignment, asked).summing(most, weighted=_is_weighted(assignment))


def combine(
    assignment: FedHafAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean of answers, at least one, and the old model where a stage ends with it.

    Raises `MethodError` where their sum could not be exact.
    """
    settings = assignment.settings
    mean = _frame(assignment, asked).mean(answers, weighted=_is_weighted(assignment))
    weights, extras = encode_weights(mean.arrays, asked.class_names), dict(asked.extras)
    if asked.ends_stage and settings.needs_old_model:
        extras[OLD_MODEL] = weights
    return Combined(weights, extras, mean.aggregate, mean.samples, mean.client_drift)


def network_of(
    assignment: FedHafAssignment, weights: bytes
) -> tuple[Network, Arrays, tuple[ClassName, ...]]:
    """Return network, tensors and rows of the head, to be exported."""
    arrays, names = decode_weights(weights, assignment.network)
    return assignment.network, arrays, names


def _is_weighted(assignment: FedHafAssignment) -> bool:
    return assignment.settings.averaging == "samples"


def _frame(assignment: FedHafAssignment, asked: Asked) -> AnswerFrame:
    return _FRAME(asked, assignment, lambda: _made_frame(assignment, asked))


def _made_frame(assignment: FedHafAssignment, asked: Asked) -> AnswerFrame:
    sent = received(
        assignment,
        asked.weights,
        asked.weights_class_names,
        asked.class_names,
        asked.round_of_stage,
    )
    return frame_of(sent, assignment.settings.upload)

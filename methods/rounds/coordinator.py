"""Rounds at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k n_k theta_k / sum_k n_k, FedAvg's mean, over integers; and, after
                    a stage, the old model and the Fisher diagonal that some losses need

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from methods.answers import AnswerFrame, Arrays
from methods.averaging import Averaging, first_weights, network_of
from methods.network_weights import encode_weights
from methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment, read_assignment
from methods.rounds.fisher import consolidated, encode_fisher
from methods.rounds.messages import frame_of, received
from methods.training_half import Asked, Combined, Given, Summing

__all__ = [
    "assign",
    "check",
    "combine",
    "first_weights",
    "network_of",
    "read_assignment",
    "summing",
]


def _frame_of(assignment: RoundsAssignment, asked: Asked) -> AnswerFrame:
    sent = received(assignment, asked.weights, asked.weights_class_names, asked.class_names)
    return frame_of(assignment, sent, asked.phase)


_AVERAGING = Averaging(_frame_of)

check = _AVERAGING.check
summing = _AVERAGING.summing


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> RoundsAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong."""
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def combine(
    assignment: RoundsAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean of answers, at least one, and what follows from it.

    Raises `MethodError` where their sum could not be exact.
    """
    mean = _AVERAGING.mean(assignment, asked, answers)
    weights, extras = _what_follows(assignment, asked, mean.arrays)
    return Combined(weights, extras, mean.aggregate, mean.samples, mean.client_drift)


def _what_follows(
    assignment: RoundsAssignment, asked: Asked, mean: Arrays
) -> tuple[bytes, Mapping[str, bytes]]:
    """Return the fleet's weights and the files that devices are given from here on."""
    names, extras = asked.class_names, dict(asked.extras)
    if asked.phase == FISHER:
        weights = asked.weights
        fisher = consolidated(asked.extras.get(FISHER), mean, names, asked.aliases)
        extras[FISHER] = encode_fisher(fisher, names)
    else:
        weights = encode_weights(mean, names)
    if asked.ends_stage and assignment.settings.needs_old_model:
        extras[OLD_MODEL] = weights
    return weights, extras

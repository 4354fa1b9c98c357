"""FedHAF at the coordinator: check answers, and average them exactly.

    first_weights   adapter and head before anybody trained, from a seed
    combine         (15) theta = sum_k w_k theta_k, over integers; and, after a stage, the old
                    model theta_{t-1} of the next

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from methods.answers import AnswerFrame
from methods.averaging import Averaging, first_weights, network_of
from methods.fedhaf.assignment import OLD_MODEL, FedHafAssignment, read_assignment
from methods.fedhaf.messages import frame_of, received
from methods.network_weights import encode_weights
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


def _frame_of(assignment: FedHafAssignment, asked: Asked) -> AnswerFrame:
    sent = received(
        assignment,
        asked.weights,
        asked.weights_class_names,
        asked.class_names,
        asked.round_of_stage,
    )
    return frame_of(sent, assignment.settings.upload)


_AVERAGING = Averaging(_frame_of)

check = _AVERAGING.check
summing = _AVERAGING.summing


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> FedHafAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong.

    `input_shape` is (d,), the number of the backbone's features.
    """
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def combine(
    assignment: FedHafAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean of answers, at least one, and the old model where a stage ends with it.

    Raises `MethodError` where their sum could not be exact.
    """
    settings = assignment.settings
    mean = _AVERAGING.mean(assignment, asked, answers)
    weights, extras = encode_weights(mean.arrays, asked.class_names), dict(asked.extras)
    if asked.ends_stage and settings.needs_old_model:
        extras[OLD_MODEL] = weights
    return Combined(weights, extras, mean.aggregate, mean.samples, mean.client_drift)

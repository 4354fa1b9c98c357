"""FBL at the coordinator: check answers, average them exactly, keep the model of the task before.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k theta_k / n, over integers; in a round that registers classes, the
                    weights that were sent become Theta^{t-1}, which late devices are given

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from methods.answers import AnswerFrame
from methods.averaging import Averaging, first_weights, network_of
from methods.fbl.assignment import OLD_MODEL, FblAssignment, read_assignment
from methods.fbl.messages import frame_of, received, registers_classes
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


def _frame_of(assignment: FblAssignment, asked: Asked) -> AnswerFrame:
    sent = received(assignment, asked.weights, asked.weights_class_names, asked.class_names)
    return frame_of(assignment, sent)


_AVERAGING = Averaging(_frame_of)

check = _AVERAGING.check
summing = _AVERAGING.summing


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> FblAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong."""
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def combine(
    assignment: FblAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean of answers, at least one, and the old model that goes with it.

    Raises `MethodError` where their sum could not be exact.
    """
    mean = _AVERAGING.mean(assignment, asked, answers)
    weights, extras = encode_weights(mean.arrays, asked.class_names), dict(asked.extras)
    known = asked.weights_class_names
    if (
        assignment.settings.needs_old_model
        and known
        and registers_classes(known, asked.class_names)
    ):
        extras[OLD_MODEL] = asked.weights
    return Combined(weights, extras, mean.aggregate, mean.samples, mean.client_drift)

"""LGA at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k theta_k / n, over integers; and, where there is no proxy to choose
                    them (ablation w/oPSR), old models drawn at random

Pure functions of bytes; no torch. Gradients of prototypes never come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from learning.networks.seeding import stream_key
from methods.answers import AnswerFrame
from methods.averaging import Averaging, first_weights, network_of
from methods.lga.assignment import NEW_MODEL, OLD_MODEL, LgaAssignment, read_assignment
from methods.lga.messages import frame_of, received
from methods.network_weights import encode_weights
from methods.training_half import Asked, Combined, Given, Summing
from schemas.values import Digest

__all__ = [
    "assign",
    "check",
    "combine",
    "first_weights",
    "network_of",
    "read_assignment",
    "summing",
]


def _frame_of(assignment: LgaAssignment, asked: Asked) -> AnswerFrame:
    sent = received(assignment, asked.weights, asked.weights_class_names, asked.class_names)
    return frame_of(assignment, sent)


_AVERAGING = Averaging(_frame_of)

check = _AVERAGING.check
summing = _AVERAGING.summing


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> LgaAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong."""
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def combine(
    assignment: LgaAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return the mean of answers, at least one, and the old models where there is no proxy.

    Raises `MethodError` where their sum could not be exact.
    """
    mean = _AVERAGING.mean(assignment, asked, answers)
    weights, extras = encode_weights(mean.arrays, asked.class_names), dict(asked.extras)
    settings = assignment.settings
    if settings.needs_old_model and not settings.has_proxy:
        extras |= _drawn_models(settings.seed, asked, weights)
    return Combined(weights, extras, mean.aggregate, mean.samples, mean.client_drift)


def _drawn_models(seed: int, asked: Asked, weights: bytes) -> dict[str, bytes]:
    """Return the old models that a stage's new model replaces.

    A reservoir of one: after r rounds each of the stage's r models is `new-model` with the same
    probability, 1 / r. With the first of a stage, that of the stage before becomes `old-model`.
    """
    if asked.round_of_stage > 1:
        key = stream_key(seed, NEW_MODEL, asked.round_of_stage, str(Digest.of(asked.weights)))
        return {} if key % asked.round_of_stage else {NEW_MODEL: weights}
    before = asked.extras.get(NEW_MODEL)
    return {NEW_MODEL: weights} | ({} if before is None else {OLD_MODEL: before})

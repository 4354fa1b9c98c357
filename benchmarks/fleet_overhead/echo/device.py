"""Echo on a device: what it was sent, and a tiny constant of its own; nothing is trained."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from methods.echo.messages import EchoAssignment, frame_of, read_assignment

from methods.answers import AnswerFrame
from methods.once import OncePerRound
from methods.training_half import Answer, Begun, LocalData, Order

__all__ = ["begin", "finish", "read_assignment"]

FRAME = OncePerRound[AnswerFrame]()
"""Of the round: devices of one process share it."""
STEP = 1e-4
_APART = 1e-6
"""Between the constants of two devices: equal answers would be stored once."""


def begin(
    assignment: EchoAssignment,
    order: Order,
    data: LocalData,
    memory: bytes | None,
    pictures: Any,  # noqa: ANN401
) -> Begun:
    """Return nothing to train, and what was sent."""
    del memory, pictures
    asked = order.round
    names = asked.weights_class_names, asked.class_names
    frame = FRAME(asked, assignment, lambda: frame_of(assignment, order.weights, *names))
    step = np.float32(STEP + _APART * int(order.device.rpartition("-")[2]))
    return Begun(None, Counter(data.class_names), trains=False, kept=(frame, step))


def finish(assignment: EchoAssignment, begun: Begun, trained: None) -> Answer:
    """Return the weights plus the constant."""
    del assignment, trained
    frame, step = begun.kept
    moved = {name: array + step for name, array in frame.sent.items()}
    return Answer(frame.encode(moved), dict(begun.samples), steps=1, loss=None)

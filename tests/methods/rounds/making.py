"""Small networks and answers for the halves of training in rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from methods.network_weights import decode_weights, grown
from methods.rounds import coordinator
from methods.rounds.assignment import RoundsAssignment
from methods.rounds.messages import frame_of
from methods.training_half import Asked
from schemas.values import ClassName
from tests.methods.making import asked_of, shaken

SHAPE = (1, 4, 4)
CAT, DOG, OWL = (ClassName(name) for name in ("cat", "dog", "owl"))


def assignment(**settings: Any) -> RoundsAssignment:
    return coordinator.assign({"rate": 0.1, "batch": 8} | settings, SHAPE)


def asked(
    of: RoundsAssignment,
    *names: ClassName,
    weights: bytes | None = None,
    rows: tuple[ClassName, ...] = (),
    **changes: Any,
) -> Asked:
    first = weights or coordinator.first_weights(of)
    return asked_of(first, names or (CAT, DOG), rows, **changes)


def sent(of: RoundsAssignment, question: Asked) -> dict[str, npt.NDArray[Any]]:
    """What devices begin with."""
    arrays, rows = decode_weights(question.weights, of.network)
    return grown(arrays, rows, question.class_names, of.settings.seed)


def moved(
    of: RoundsAssignment, question: Asked, seed: int, far: float = 0.1
) -> dict[str, npt.NDArray[np.float32]]:
    """Weights as a device might have trained them."""
    return shaken(sent(of, question), seed, far)


def answer(of: RoundsAssignment, question: Asked, arrays: dict[str, Any]) -> bytes:
    return frame_of(of, sent(of, question), question.phase).encode(arrays)

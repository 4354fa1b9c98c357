"""Small networks and answers for the halves of training in rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from methods.network_weights import decode_weights, grown
from methods.rounds import coordinator
from methods.rounds.assignment import RoundsAssignment
from methods.rounds.messages import frame_of
from methods.training_half import Asked, Given
from schemas.values import ClassName

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
    values: dict[str, Any] = {
        "phase": "train",
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "weights": weights or coordinator.first_weights(of),
        "weights_class_names": rows,
        "class_names": names or (CAT, DOG),
    }
    return Asked(**(values | changes))


def sent(of: RoundsAssignment, question: Asked) -> dict[str, npt.NDArray[Any]]:
    """What devices begin with."""
    arrays, rows = decode_weights(question.weights, of.network)
    return grown(arrays, rows, question.class_names, of.settings.seed)


def moved(
    of: RoundsAssignment, question: Asked, seed: int, far: float = 0.1
) -> dict[str, npt.NDArray[np.float32]]:
    """Weights as a device might have trained them."""
    random = np.random.default_rng(seed)
    return {
        name: np.abs(array + far * random.normal(size=array.shape)).astype(np.float32)
        for name, array in sent(of, question).items()
    }


def answer(of: RoundsAssignment, question: Asked, arrays: dict[str, Any]) -> bytes:
    return frame_of(of, sent(of, question), question.phase).encode(arrays)


def given(payload: bytes, samples: int = 1) -> Given:
    return Given(samples, lambda: payload)

"""Small fleets of LGA: pictures like digits of four classes, questions, orders, answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from methods.lga import coordinator
from methods.lga.assignment import LgaAssignment
from methods.lga.messages import frame_of, received
from methods.training_half import Asked, LocalData
from schemas.values import ClassName, Digest
from tests.methods.making import asked_of, shaken

SHAPE = (1, 8, 8)
ANT, BEE, CAT, DOG, EEL = (ClassName(name) for name in ("ant", "bee", "cat", "dog", "eel"))
EVERY = (ANT, BEE, CAT, DOG)
STAGES = (1, 1, 2, 2)

Arrays = dict[str, npt.NDArray[Any]]


def assignment(**settings: Any) -> LgaAssignment:
    small = {
        "network": "mlp",
        "epochs": 2,
        "batch": 13,
        "smallest_batch": 2,
        "detection": "stage",
        "memory": 12,
    }
    brief = {"reserved": 8, "perturbation_steps": 2, "rate": 0.1}
    return coordinator.assign(small | brief | settings, SHAPE)


def samples(count: int, *names: ClassName, seed: int = 0) -> LocalData:
    """Pictures with a bright row for the class, and noise of their own."""
    random = np.random.default_rng(seed)
    labels = tuple(names[number % len(names)] for number in range(count))
    pictures = random.integers(0, 120, (count, *SHAPE)).astype(np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, (*EVERY, EEL).index(label)] += 100
    digests = tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count))
    return LocalData(pictures, labels, digests)


def asked(
    of: LgaAssignment,
    *names: ClassName,
    weights: bytes | None = None,
    rows: tuple[ClassName, ...] = (),
    **changes: Any,
) -> Asked:
    first = weights or coordinator.first_weights(of)
    return asked_of(first, names or (ANT, BEE), rows, **changes)


def sent(of: LgaAssignment, question: Asked) -> Arrays:
    """What devices begin with."""
    return received(of, question.weights, question.weights_class_names, question.class_names)


def moved(of: LgaAssignment, question: Asked, seed: int, far: float = 0.1) -> Arrays:
    """Weights as a device might have trained them."""
    return shaken(sent(of, question), seed, far)


def answer(of: LgaAssignment, question: Asked, arrays: Arrays) -> bytes:
    return frame_of(of, sent(of, question)).encode(arrays)

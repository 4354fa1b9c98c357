"""Small fleets of LGA: pictures like digits of four classes, questions, orders, answers."""

from __future__ import annotations

import numpy as np

from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.messages import frame_of, received
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.exchange import Exchange

SHAPE = (1, 8, 8)
ANT, BEE, CAT, DOG, EEL = (ClassName(name) for name in ("ant", "bee", "cat", "dog", "eel"))
EVERY = (ANT, BEE, CAT, DOG)
STAGES = (1, 1, 2, 2)


EXCHANGE = Exchange(
    COORDINATOR,
    lambda of, question: received(
        of, question.weights, question.weights_class_names, question.class_names
    ),
    lambda of, first, _: frame_of(of, first),
    (ANT, BEE),
    SHAPE,
    {
        "network": "mlp",
        "epochs": 2,
        "batch": 13,
        "smallest_batch": 2,
        "rate": 0.1,
        "detection": "stage",
        "memory": 12,
        "reserved": 8,
        "perturbation_steps": 2,
    },
)
assignment = EXCHANGE.assignment
asked, sent, moved = EXCHANGE.asked, EXCHANGE.sent, EXCHANGE.moved
answer, answers = EXCHANGE.answer, EXCHANGE.answers


def samples(count: int, *names: ClassName, seed: int = 0) -> LocalData:
    """Pictures with a bright row for the class, and noise of their own."""
    random = np.random.default_rng(seed)
    labels = tuple(names[number % len(names)] for number in range(count))
    pictures = random.integers(0, 120, (count, *SHAPE)).astype(np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, (*EVERY, EEL).index(label)] += 100
    digests = tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count))
    return LocalData(pictures, labels, digests)

"""Small networks and answers for the halves of training in rounds."""

from __future__ import annotations

import numpy as np

from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.messages import frame_of, received
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.exchange import Exchange

SHAPE = (1, 4, 4)
CAT, DOG, OWL = (ClassName(name) for name in ("cat", "dog", "owl"))

EXCHANGE = Exchange(
    COORDINATOR,
    lambda of, question: received(
        of, question.weights, question.weights_class_names, question.class_names
    ),
    lambda of, first, question: frame_of(of, first, question.phase),
    (CAT, DOG),
    SHAPE,
    {"rate": 0.1, "batch": 8},
)
assignment = EXCHANGE.assignment
asked, sent, moved = EXCHANGE.asked, EXCHANGE.sent, EXCHANGE.moved
answer, answers = EXCHANGE.answer, EXCHANGE.answers


def images(count: int, *names: ClassName, seed: int = 0) -> LocalData:
    """Pictures with one bright row for each class, and noise of their own."""
    random = np.random.default_rng(seed)
    labels = [names[number % len(names)] for number in range(count)]
    pixels = random.integers(0, 90, (count, *SHAPE)).astype(np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        picture[0, (CAT, DOG, OWL).index(label)] += 150
    digests = tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count))
    return LocalData(pixels, tuple(labels), digests)

"""Small fleets of FedHAF: features of four classes, questions, orders, answers; needs no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fleetledger.methods.fedhaf.coordinator import COORDINATOR
from fleetledger.methods.fedhaf.messages import frame_of, received
from fleetledger.methods.training.exchange import FitInstruction, LocalData, RoundConfig
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.exchange import Exchange
from tests.methods.making import told_of

WIDTH = 6
ANT, BEE, CAT, DOG = (ClassName(name) for name in ("ant", "bee", "cat", "dog"))
EVERY = (ANT, BEE, CAT, DOG)


EXCHANGE = Exchange(
    COORDINATOR,
    lambda of, question: received(
        of,
        question.weights,
        question.weights_class_names,
        question.class_names,
        question.round_of_stage,
    ),
    lambda of, first, _: frame_of(first, of.settings.upload),
    (ANT, BEE),
    (WIDTH,),
    {
        "hidden": 10,
        "width": 5,
        "batch": 8,
        "smallest_batch": 2,
        "head_epochs": 3,
        "head_rate": 0.05,
    },
)
assignment = EXCHANGE.assignment
asked, sent, moved = EXCHANGE.asked, EXCHANGE.sent, EXCHANGE.moved
answer, answers = EXCHANGE.answer, EXCHANGE.answers


def samples(count: int, *names: ClassName, seed: int = 0, **changes: Any) -> LocalData:
    """Features whose number of the class is large, with noise of their own."""
    random = np.random.default_rng(seed)
    labels = tuple(names[number % len(names)] for number in range(count))
    features = random.normal(size=(count, WIDTH)).astype(np.float32)
    for row, label in zip(features, labels, strict=True):
        row[EVERY.index(label)] += 3
    digests = tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count))
    return LocalData(features, labels, digests, **changes)


def order(
    question: RoundConfig,
    *task: ClassName,
    stage: int = 1,
    device_name: str = "dev-1",
    aliases: dict[ClassName, ClassName] | None = None,
) -> FitInstruction:
    """What a device is told of a round."""
    told = told_of(question, stage, aliases=aliases or {})
    new = task or question.class_names
    stages = tuple(stage if name in new else stage - 1 for name in question.class_names)
    asks = FitInstruction(stage, new, told, question.weights, question.extras, device_name)
    return replace(asks, class_stages=stages)

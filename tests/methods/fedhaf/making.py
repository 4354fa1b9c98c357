"""Small fleets of FedHAF: features of four classes, questions, orders, answers; needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from methods.fedhaf import coordinator
from methods.fedhaf.assignment import FedHafAssignment
from methods.fedhaf.messages import frame_of, received
from methods.training_half import Asked, Given, LocalData, Order
from schemas.rounds import RoundOrder
from schemas.values import ClassName, Digest
from tests.schemas.examples import OFFER

WIDTH = 6
ANT, BEE, CAT, DOG = (ClassName(name) for name in ("ant", "bee", "cat", "dog"))
EVERY = (ANT, BEE, CAT, DOG)

Arrays = dict[str, npt.NDArray[Any]]


def assignment(**settings: Any) -> FedHafAssignment:
    small = {"hidden": 10, "width": 5, "batch": 8, "smallest_batch": 2}
    brief = {"head_epochs": 3, "head_rate": 0.05}
    return coordinator.assign(small | brief | settings, (WIDTH,))


def samples(count: int, *names: ClassName, seed: int = 0, **changes: Any) -> LocalData:
    """Features whose number of the class is large, with noise of their own."""
    random = np.random.default_rng(seed)
    labels = tuple(names[number % len(names)] for number in range(count))
    features = random.normal(size=(count, WIDTH)).astype(np.float32)
    for row, label in zip(features, labels, strict=True):
        row[EVERY.index(label)] += 3
    digests = tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count))
    return LocalData(features, labels, digests, **changes)


def joined(*parts: LocalData) -> LocalData:
    return LocalData(
        np.concatenate([part.inputs for part in parts]),
        tuple(name for part in parts for name in part.class_names),
        tuple(digest for part in parts for digest in part.digests),
        parts[0].exemplars_as,
    )


def only(data: LocalData, rows: Sequence[int]) -> LocalData:
    """The data without the images of other rows."""
    return LocalData(
        data.inputs[list(rows)],
        tuple(data.class_names[row] for row in rows),
        tuple(data.digests[row] for row in rows),
        data.exemplars_as,
    )


def asked(
    of: FedHafAssignment,
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
        "class_names": names or (ANT, BEE),
    }
    return Asked(**(values | changes))


def order(
    question: Asked,
    *task: ClassName,
    stage: int = 1,
    device_name: str = "dev-1",
    aliases: dict[ClassName, ClassName] | None = None,
) -> Order:
    """What a device is told of a round."""
    told = RoundOrder(
        number=stage,
        round_of_stage=question.round_of_stage,
        rounds_of_stage=question.rounds_of_stage,
        weights=OFFER,
        weights_class_names=question.weights_class_names,
        class_names=question.class_names,
        aliases=aliases or {},
        seed=5,
        deadline_seconds=60.0,
    )
    new = task or question.class_names
    return Order(stage, new, told, question.weights, question.extras, device_name)


def sent(of: FedHafAssignment, question: Asked) -> Arrays:
    """What devices begin with."""
    rows = (question.weights_class_names, question.class_names)
    return received(of, question.weights, *rows, question.round_of_stage)


def moved(of: FedHafAssignment, question: Asked, seed: int, far: float = 0.1) -> Arrays:
    """Weights as a device might have trained them."""
    random = np.random.default_rng(seed)
    return {
        name: np.abs(array + far * random.normal(size=array.shape)).astype(np.float32)
        for name, array in sent(of, question).items()
    }


def answer(of: FedHafAssignment, question: Asked, arrays: Arrays) -> bytes:
    return frame_of(sent(of, question)).encode(arrays)


def given(payload: bytes, count: int = 1) -> Given:
    return Given(count, lambda: payload)

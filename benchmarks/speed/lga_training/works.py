"""What a device is asked to train with LGA: a first task, and a later one with an old model."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Work
from fleetledger.methods.lga.assignment import OLD_MODEL, LgaAssignment
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.device import DEVICE
from fleetledger.methods.lga.messages import received
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.network_weights import encode_weights
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import TRAIN, RoundOrder
from fleetledger.schemas.values import ClassName, Digest

CLASSES = 20
"""Of a task; the later one has as many old ones."""
PICTURES = Pictures((0.5,) * 3, (0.25,) * 3)
NAMES = tuple(ClassName(f"class {number:02d}") for number in range(2 * CLASSES))
_NOWHERE = Offer(digest=Digest.of(b"weights"), size=1, list_digest=Digest.of(b"list"))


class Pictured(Protocol):
    """An assignment of any method that trains on pictures."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        ...


def assignment(network: str, side: int, batch: int, epochs: int) -> LgaAssignment:
    """Return LGA with that network and the settings of its paper."""
    settings: dict[str, Any] = {"network": network, "batch": batch, "epochs": epochs}
    return COORDINATOR.assign(settings | {"detection": "stage"}, (3, side, side))


def works(
    of: LgaAssignment, images: int, engine: TrainingEngineSettings | None = None
) -> dict[str, Work]:
    """Return what LGA makes of a first and of a later task, on as many drawn images each.

    It looks at them where `engine` computes, on the processor without one.
    """
    old, new = NAMES[:CLASSES], NAMES[CLASSES:]
    first = COORDINATOR.first_weights(of)
    known = encode_weights(received(of, first, (), old), old)
    asked = order(1, old, (), first, {})
    later = order(2, NAMES, old, known, {OLD_MODEL: known})
    return {
        "first task": _work(of, asked, drawn(of, old, images), engine),
        "later task": _work(of, later, drawn(of, new, images), engine),
    }


def order(
    stage: int,
    names: tuple[ClassName, ...],
    rows: tuple[ClassName, ...],
    weights: bytes,
    extras: dict[str, bytes],
    phase: str = TRAIN,
) -> FitInstruction:
    """Return what a device is told of a round for classes `names`; the weights have `rows`."""
    told = RoundOrder(
        number=stage,
        phase=phase,
        round_of_stage=2,
        rounds_of_stage=10,
        weights=_NOWHERE,
        weights_class_names=rows,
        class_names=names,
        seed=1,
        deadline_seconds=60.0,
    )
    stages = tuple(1 + place // CLASSES for place in range(len(names)))
    return FitInstruction(stage, names[len(rows) :], told, weights, extras, "device-1", stages)


def drawn(of: Pictured, names: tuple[ClassName, ...], images: int) -> LocalData:
    """Return so many images of noise, of each class in turn."""
    chance = np.random.default_rng(1)
    pictures = chance.integers(0, 256, (images, *of.input_shape)).astype(np.uint8)
    labels = tuple(names[number % len(names)] for number in range(images))
    digests = tuple(Digest.of(f"{names[0]} {number}".encode()) for number in range(images))
    return LocalData(pictures, labels, digests)


def _work(
    of: LgaAssignment,
    instruction: FitInstruction,
    data: LocalData,
    engine: TrainingEngineSettings | None,
) -> Work:
    begun = DEVICE.begin(of, instruction, data, None, PICTURES, engine)
    assert begun is not None
    work: Work = begun.work
    return work

"""Orders and whole local rounds of training in rounds."""

from __future__ import annotations

from typing import Any

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.device import DEVICE
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import ClassName
from tests.methods.local_rounds import LocalRounds
from tests.methods.rounds.making import CAT, DOG
from tests.schemas.examples import OFFER

PICTURES = Pictures((0.5,), (0.5,))
LOCAL = LocalRounds(DEVICE, PICTURES)
begun, learn = LOCAL.begun, LOCAL.learn


def order(
    of: RoundsAssignment,
    *names: ClassName,
    stage: int = 1,
    task: tuple[ClassName, ...] | None = None,
    weights: bytes | None = None,
    extras: dict[str, bytes] | None = None,
    **changes: Any,
) -> FitInstruction:
    values: dict[str, Any] = {
        "number": 1,
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "weights": OFFER,
        "class_names": names or (CAT, DOG),
        "seed": 5,
        "deadline_seconds": 60.0,
    }
    return FitInstruction(
        stage=stage,
        stage_class_names=task or names or (CAT, DOG),
        round=RoundOrder.model_validate(values | changes),
        weights=weights or COORDINATOR.first_weights(of),
        extras=extras or {},
        device="dev-1",
    )

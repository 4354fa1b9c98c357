"""Who is there in a stage, and what has reached whom."""

from __future__ import annotations

import math
from random import Random

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.virtual.parts import Delivery


def asked(stage: StagePlan, participation: float, seed: int) -> tuple[DeviceId, ...]:
    """Return the present devices that take part in a stage, in the order of the plan.

    With a participation below 1 a share of them is drawn, rounded up; the others are as good as
    absent for this stage.
    """
    present = tuple(stage.devices)
    number = math.ceil(participation * len(present))
    random = Random(f"participation/{seed}/{stage.number}")  # noqa: S311 - repeatable
    chosen = set(random.sample(range(len(present)), number))
    return tuple(name for position, name in enumerate(present) if position in chosen)


def delivered(plan: FleetPlan, device: DeviceId, stage: int) -> tuple[Delivery, ...]:
    """Return what has reached a device that is there in a stage: all of the plan up to it.

    What came while it was away has waited for it.
    """
    return tuple(
        (item.number, item.devices[device].indices)
        for item in plan.stages[:stage]
        if device in item.devices and len(item.devices[device].indices)
    )

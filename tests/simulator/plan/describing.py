"""A plan in a few numbers, as tests look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.plan.fleet_plan import FleetPlan, Group, StagePlan


class CountSpread(Strict):
    """How a number differs over devices."""

    min: int
    median: float
    max: int


class StageDescription(Strict):
    """A stage of a plan in a few numbers."""

    stage: int
    class_names: tuple[ClassName, ...]
    groups: dict[Group, int]
    """Devices in each group."""
    offline: int
    late: int
    """Devices that will answer late."""
    images: CountSpread
    """Training images that arrive at each device which is new or joined."""
    classes: CountSpread
    """Classes of the stage that each of these holds."""
    notes: tuple[str, ...]


def describe_plan(plan: FleetPlan, labels: NDArray[np.int64]) -> tuple[StageDescription, ...]:
    """Return what a report says of each stage; `labels` (N,) are the training samples'."""
    return tuple(_describe_stage(plan, stage, labels) for stage in plan.stages)


def _describe_stage(
    plan: FleetPlan, stage: StagePlan, labels: NDArray[np.int64]
) -> StageDescription:
    devices = stage.devices.values()
    arriving = [labels[device.indices] for device in devices if device.group != "old"]
    return StageDescription(
        stage=stage.number,
        class_names=plan.names(stage.classes),
        groups=dict(Counter(device.group for device in devices)),
        offline=sum(not device.online for device in devices),
        late=sum(device.delay_seconds > 0 for device in devices),
        images=_spread([len(part) for part in arriving]),
        classes=_spread([len(np.unique(part)) for part in arriving]),
        notes=stage.notes,
    )


def _spread(numbers: Sequence[int]) -> CountSpread:
    """Return the spread of at least one number; a stage without receivers is not planned."""
    return CountSpread(min=min(numbers), median=float(np.median(numbers)), max=max(numbers))

"""Who is there in a stage, and what has reached whom."""

from __future__ import annotations

import math
from collections.abc import Iterable
from random import Random

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.datasets.segmentation.tasks import shown_labels
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import learns_in_rounds
from fleetledger.simulator.virtual.parts import Delivery


def asked(scenario: Scenario, stage: StagePlan, seed: int) -> tuple[DeviceId, ...]:
    """Return the present devices that take part in a stage, in the order of the plan.

    All do where each round draws a cohort. With a participation below 1 a share of them is drawn,
    rounded up; the others are as good as absent for this stage.
    """
    present = tuple(stage.devices)
    if learns_in_rounds(scenario, stage.number):
        return present
    number = math.ceil(scenario.rounds.participation * len(present))
    random = Random(f"participation/{seed}/{stage.number}")  # noqa: S311 - repeatable
    chosen = set(random.sample(range(len(present)), number))
    return tuple(name for position, name in enumerate(present) if position in chosen)


def online(scenario: Scenario, stage: StagePlan, seed: int) -> tuple[DeviceId, ...]:
    """Return those of them that are there."""
    return tuple(name for name in asked(scenario, stage, seed) if stage.devices[name].online)


def opens_by_itself(scenario: Scenario, stage: StagePlan) -> bool:
    """Return whether a stage is opened by what devices report, rather than by the operator."""
    return scenario.stages.by_reports and stage.number > 1


def needed_names(
    prepared: Prepared, stage: StagePlan, there: Iterable[DeviceId]
) -> frozenset[ClassName]:
    """Return the classes that a stage has to open: all, or those that somebody can report."""
    plan = prepared.plan
    if not opens_by_itself(prepared.scenario, stage):
        return frozenset(plan.names(stage.named))
    held = {
        label
        for device in there
        for _, indices in delivered(plan, device, stage.number)
        for label in shown_labels(prepared.split.train, indices)
    }
    return frozenset(plan.names(tuple(label for label in stage.classes if label in held)))


def delivered(plan: FleetPlan, device: DeviceId, stage: int) -> tuple[Delivery, ...]:
    """Return what has reached a device that is there in a stage: all of the plan up to it.

    What came while it was away has waited for it.
    """
    return tuple(
        (item.number, item.devices[device].indices)
        for item in plan.stages[:stage]
        if device in item.devices and len(item.devices[device].indices)
    )

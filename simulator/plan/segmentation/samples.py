"""The plan of a scenario with masks, told in the samples that engines run on."""

from __future__ import annotations

from dataclasses import replace

from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.samples import SegmentedSplit
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.plan.segmentation.plan_maker import make_segmentation_plan
from fleetledger.simulator.scenario.model import Scenario


def plan_task_scenes(
    scenario: Scenario, scenes: SegmentedSplit, seed: int
) -> tuple[Split[TaskScenes], FleetPlan]:
    """Return a sample for every task and scene that shows anything of it, and who gets which.

    The plan's indices are those of the samples of the training part. Raises `PlanError` and
    `PartitionError` as `make_segmentation_plan` does.
    """
    plan = make_segmentation_plan(scenes.train, scenario.stages, scenario.devices, seed)
    tasks = [stage.classes for stage in plan.stages]
    split = Split(TaskScenes.of(scenes.train, tasks), TaskScenes.of(scenes.test, tasks))
    stages = tuple(_of_samples(stage, split.train) for stage in plan.stages)
    return split, replace(plan, stages=stages)


def _of_samples(stage: StagePlan, samples: TaskScenes) -> StagePlan:
    devices = {
        name: replace(device, indices=samples.indices(stage.number, device.indices))
        for name, device in stage.devices.items()
    }
    return replace(stage, devices=devices)

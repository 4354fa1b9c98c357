"""Scenes as devices meet them: a sample for every task in which a scene shows anything."""

from __future__ import annotations

from dataclasses import replace

from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.samples import SceneSet
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan


def by_task(split: Split[SceneSet], plan: FleetPlan) -> tuple[Split[TaskScenes], FleetPlan]:
    """Return the samples of a plan's stages, and the plan with indices of these."""
    tasks = [stage.classes for stage in plan.stages]
    samples = Split(TaskScenes.of(split.train, tasks), TaskScenes.of(split.test, tasks))
    stages = tuple(_of_samples(stage, samples.train) for stage in plan.stages)
    return samples, replace(plan, stages=stages)


def _of_samples(stage: StagePlan, samples: TaskScenes) -> StagePlan:
    devices = {
        name: replace(device, indices=samples.indices(stage.number, device.indices))
        for name, device in stage.devices.items()
    }
    return replace(stage, devices=devices)

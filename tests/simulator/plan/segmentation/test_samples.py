"""The plan of a scenario with masks, in the samples that engines run on."""

from functools import cache

import numpy as np

from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.metrics.plan_counts import plan_counts
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.plan.tasks import by_task
from fleetledger.simulator.scenario.model import Scenario

SCENARIO = Scenario.model_validate(
    {
        "title": "it",
        "data": {"set": "digit-scenes"},
        "stages": {"setting": "4-2", "classes": 8},
        "devices": {
            "count": 4,
            "partition": {"rule": "class-share", "class_share": 0.5, "image_share": 0.6},
            "groups": {"rule": "redrawn", "new_share": 0.5, "joining": 2},
        },
    }
)


@cache
def drawn() -> Split[SegmentedImages]:
    return split_digit_scenes(SceneSettings(train=60, test=10), seed=1)


def test_every_device_has_the_scenes_of_the_plan_as_samples_of_their_task():
    dealt = make_plan(SCENARIO, drawn(), seed=3)
    split, plan = by_task(drawn(), dealt)
    assert len(plan.stages) == len(dealt.stages) == 3
    for stage, other in zip(plan.stages, dealt.stages, strict=True):
        assert stage.devices.keys() == other.devices.keys()
        for name, device in stage.devices.items():
            assert device.group == other.devices[name].group
            scenes = split.train.scene_of[device.indices]
            assert np.array_equal(np.sort(scenes), other.devices[name].indices)
            assert (split.train.task_of[device.indices] == stage.number).all()


def test_both_parts_have_the_tasks_of_the_plan():
    split, plan = by_task(drawn(), make_plan(SCENARIO, drawn(), seed=3))
    for part, scenes in ((split.train, drawn().train), (split.test, drawn().test)):
        assert part.tasks == tuple(stage.classes for stage in plan.stages)
        assert part.scenes.fingerprint == scenes.fingerprint


def test_samples_are_counted_in_their_own_stage_alone():
    split, plan = by_task(drawn(), make_plan(SCENARIO, drawn(), seed=3))
    counts = plan_counts(plan, split.train.labels)
    for stage in plan.stages:
        others = [label for label in range(10) if label not in stage.classes]
        assert counts[stage.number - 1].sum()
        assert not counts[stage.number - 1][:, others].any()

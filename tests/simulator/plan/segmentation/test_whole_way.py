"""From digit scenes over plan and masks to scores, with predictions whose scores are known."""

import numpy as np
import pytest

from fleetledger.simulator.datasets.labels import samples_of
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.metrics.segmentation import PixelCounts, SegmentationScores, score_stage
from tests.simulator.plan.making import plan_scenes
from tests.simulator.plan.segmentation.task_setting import TaskSetting

SPLIT = split_digit_scenes(SceneSettings(train=200, test=60), seed=2)
SETTING = TaskSetting.read("4-2")
PLAN = plan_scenes(SPLIT.train, SETTING.stages(10), SETTING.devices(), seed=2)


def scores_of_knowing(stage: int, known: tuple[int, ...]) -> SegmentationScores:
    """Scores after a stage of somebody who sees these classes without a fault and no others."""
    seen = PLAN.seen(stage)
    pictures = samples_of(SPLIT.test.labels, seen)
    counts = PixelCounts.none(10)
    for index in pictures:
        truth = show_classes(SPLIT.test.mask(index), seen)
        said = show_classes(np.where(truth == 255, 0, truth).astype(np.uint8), known)
        counts = counts + PixelCounts.of(truth, said, 10)
    return score_stage(counts, [item.classes for item in PLAN.stages[:stage]])


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_a_device_sees_its_tasks_classes_alone_and_every_picture_has_one(stage: int):
    task = PLAN.stages[stage - 1]
    for device in task.devices.values():
        if device.group == "old":
            continue
        held = SPLIT.train.take(device.indices)
        masks = show_classes(held.masks, task.classes)
        values = {label + 1 for label in task.classes}
        assert set(np.unique(masks)) <= {0, 255, *values}
        assert all(values & set(np.unique(mask)) for mask in masks)
        assert held.images.shape == (len(device.indices), 48, 48, 3)


@pytest.mark.parametrize("stage", [1, 2, 4])
def test_who_knows_all_has_everything_and_who_forgets_has_the_new_alone(stage: int):
    everything = scores_of_knowing(stage, PLAN.seen(stage))
    assert (everything.all, everything.new) == (1, 1)
    assert everything.tasks == (1,) * stage
    newest = PLAN.stages[stage - 1].classes
    forgetful = scores_of_knowing(stage, newest)
    assert forgetful.new == 1
    assert forgetful.tasks == (*(0,) * (stage - 1), 1)
    assert (forgetful.all < 1) == (stage > 1)

"""Whole plans for digit scenes, and what is said where none can be made."""

import numpy as np
import pytest

from fleetledger.simulator.datasets.labels import samples_of
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.partitions import PartitionSettings
from fleetledger.simulator.scenario.sections import DeviceSettings
from tests.simulator.datasets.segmentation.making import random_scenes
from tests.simulator.plan.making import digest, plan_scenes, same
from tests.simulator.plan.segmentation.task_setting import TaskSetting

FOUR_TWO = TaskSetting.read("4-2")


@pytest.fixture(scope="module")
def train() -> SegmentedImages:
    return split_digit_scenes(SceneSettings(train=300, test=1), seed=1).train


def plan(train: SegmentedImages, name: str = "4-2", seed: int = 1, **changed) -> FleetPlan:
    setting = TaskSetting.read(name)
    devices = setting.devices()
    devices = DeviceSettings.model_validate({**devices.model_dump(), **changed})
    return plan_scenes(train, setting.stages(10), devices, seed)


def test_four_devices_join_with_every_task(train: SegmentedImages):
    made = plan(train)
    assert [stage.classes for stage in made.stages] == [(0, 1, 2, 3), (4, 5), (6, 7), (8, 9)]
    assert [len(stage.devices) for stage in made.stages] == [10, 14, 18, 22]
    groups = [[d.group for d in stage.devices.values()] for stage in made.stages]
    assert [kinds.count("joined") for kinds in groups] == [0, 4, 4, 4]
    assert [kinds.count("old") for kinds in groups] == [0, 1, 2, 2]


def test_old_devices_get_nothing_and_the_others_their_share(train: SegmentedImages):
    for stage in plan(train).stages:
        for device in stage.devices.values():
            if device.group == "old":
                assert len(device.indices) == 0
                continue
            subset = [
                classes
                for classes in np.array(np.meshgrid(stage.classes, stage.classes)).T.reshape(-1, 2)
                if len(device.indices)
                == int(0.6 * len(samples_of(train.labels, np.unique(classes).tolist())))
            ]
            assert subset
            assert set(device.indices) <= set(samples_of(train.labels, stage.classes))


def test_a_picture_comes_again_with_another_task(train: SegmentedImages):
    arrived = [
        {int(i) for device in stage.devices.values() for i in device.indices}
        for stage in plan(train).stages
    ]
    assert arrived[0] & arrived[1]


def test_disjoint_tasks_have_no_picture_of_a_later_class(train: SegmentedImages):
    setting = FOUR_TWO.stages(10).model_copy(update={"scenes": "disjoint"})
    made = plan_scenes(train, setting, FOUR_TWO.devices(), 1)
    for stage in made.stages:
        last = max(stage.classes)
        for device in stage.devices.values():
            for picture in device.indices:
                shown = np.flatnonzero(train.labels[picture])
                assert max(shown) <= last
                assert set(shown) & set(stage.classes)
    assert {len(d.indices) for d in made.stages[-1].devices.values()} == {
        len(d.indices) for d in plan(train).stages[-1].devices.values()
    }


def test_a_class_that_never_comes_without_later_ones_is_refused_in_disjoint_tasks(
    train: SegmentedImages,
):
    scenes = train.take(np.flatnonzero((train.labels[:, 5] == 0) | (train.labels[:, 9] > 0)))
    setting = FOUR_TWO.stages(10).model_copy(update={"scenes": "disjoint"})
    with pytest.raises(PlanError, match="5 of stage 2 has no training image without a class"):
        plan_scenes(scenes, setting, FOUR_TWO.devices(), seed=1)


def test_who_is_old_is_drawn_anew_for_every_task(train: SegmentedImages):
    made = plan(train, "1-1", groups={"rule": "redrawn", "new_share": 0.5, "joining": 0})
    old = [
        frozenset(name for name, device in stage.devices.items() if device.group == "old")
        for stage in made.stages[1:]
    ]
    assert {len(names) for names in old} == {5}
    assert len(set(old)) > 5


def test_a_seed_gives_the_same_plan_and_another_gives_another(train: SegmentedImages):
    assert same(plan(train), plan(train))
    assert not same(plan(train), plan(train, seed=2))


def test_a_plan_is_what_it_always_was():
    """If NumPy should draw other numbers, plans of old runs could not be made again."""
    train = random_scenes(40, 10, size=(2, 3))
    assert digest(plan(train)) == "864cd37a73cd"


def test_pictures_that_reach_nobody_are_noted(train: SegmentedImages):
    fewer = {"rule": "class-share", "class_share": 0.25, "image_share": 0.05}
    made = plan(train, count=1, partition=fewer, groups={"rule": "none"})
    (note,) = made.stages[0].notes
    share = made.stages[0].devices["device-1"].indices
    whole = len(samples_of(train.labels, (0, 1, 2, 3)))
    assert note.startswith(f"{whole - len(share)} of {whole} images of the stage reach no device")
    held = train.labels[share].any(axis=0)
    missing = [str(label) for label in range(4) if not held[label]]
    assert note.endswith(f"nobody has {', '.join(missing)}") == bool(missing)


def test_devices_drop_out_and_are_late_as_in_any_plan(train: SegmentedImages):
    made = plan(train, dropout=0.3, stragglers=0.5)
    met = [device for stage in made.stages for device in stage.devices.values()]
    assert {device.online for device in met} == {True, False}
    assert any(device.delay_seconds for device in met)


def test_devices_that_join_are_excluded_where_the_scenario_says_so(train: SegmentedImages):
    groups = {"rule": "redrawn", "joining": 4, "newcomers": "excluded"}
    made, usual = plan(train, groups=groups, stragglers=1.0), plan(train, stragglers=1.0)
    first = set(made.stages[0].devices)
    for stage, asked in zip(made.stages, usual.stages, strict=True):
        for name, device in stage.devices.items():
            assert device.online == (name in first)
            assert (device.delay_seconds > 0) == (name in first)
            assert np.array_equal(device.indices, asked.devices[name].indices)
    assert "8 devices that joined are never asked" in made.stages[2].notes[-1]


def test_another_rule_is_refused(train: SegmentedImages):
    devices = DeviceSettings(partition=PartitionSettings(rule="dirichlet"))
    with pytest.raises(PlanError, match="'dirichlet'; pictures with several classes"):
        plan_scenes(train, FOUR_TWO.stages(10), devices, 0)


def test_a_class_without_a_picture_is_refused(train: SegmentedImages):
    without = train.take(np.flatnonzero(train.labels[:, 5] == 0))
    with pytest.raises(PlanError, match="5 of stage 2 has no training image"):
        plan(without)


def test_a_task_that_nobody_gets_is_refused(train: SegmentedImages):
    with pytest.raises(PartitionError, match=r"stage 2: no device gets its images"):
        plan(train, groups={"rule": "redrawn", "new_share": 0.0})


def test_a_fleet_that_is_offline_at_first_is_refused(train: SegmentedImages):
    with pytest.raises(PlanError, match="every device with images is offline in stage 1"):
        plan(train, count=1, dropout=0.999)

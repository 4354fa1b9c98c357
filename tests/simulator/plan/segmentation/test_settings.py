"""Settings by name, and FBL's fleets."""

import pytest

from fleetledger.simulator.plan.stages import divide_classes
from tests.simulator.plan.making import names
from tests.simulator.plan.segmentation.task_setting import TaskSetting


def sizes(name: str, classes: int, order="as-is", seed: int = 0) -> list[int]:
    stages = TaskSetting.read(name).stages(classes, order)
    return [len(labels) for labels in divide_classes(stages, names(classes), seed)]


@pytest.mark.parametrize(
    ("name", "classes", "tasks"),
    [
        ("15-1", 20, [15, 1, 1, 1, 1, 1]),
        ("4-4", 20, [4] * 5),
        ("8-2", 20, [8, 2, 2, 2, 2, 2, 2]),
        ("100-10", 150, [100, 10, 10, 10, 10, 10]),
        ("4-2", 10, [4, 2, 2, 2]),
        ("7-1", 11, [7, 1, 1, 1, 1]),
        ("10-5", 10, [10]),
    ],
)
def test_a_setting_makes_tasks(name: str, classes: int, tasks: list[int]):
    assert sizes(name, classes) == tasks
    assert str(TaskSetting.read(name)) == name


def test_classes_come_in_the_order_of_the_data_set_or_of_the_seed():
    setting = TaskSetting.read("4-2")
    as_is = divide_classes(setting.stages(8), names(10), seed=1)
    assert as_is == ((0, 1, 2, 3), (4, 5), (6, 7))
    drawn = [divide_classes(setting.stages(8, "seeded"), names(10), seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [len(labels) for labels in drawn[0]] == [4, 2, 2]


@pytest.mark.parametrize(
    ("name", "class_share", "image_share"),
    [("15-1", 1.0, 0.4), ("4-4", 0.5, 0.6), ("8-2", 0.5, 0.6), ("100-10", 0.7, 1.0)],
)
def test_fbls_fleet_has_ten_devices_and_four_more_each_task(
    name: str, class_share: float, image_share: float
):
    devices = TaskSetting.read(name).devices()
    assert (devices.count, devices.groups.rule, devices.groups.joining) == (10, "redrawn", 4)
    assert devices.partition.rule == "class-share"
    assert devices.partition.class_share == class_share
    assert devices.partition.image_share == image_share
    assert TaskSetting.read("4-2").devices() == TaskSetting.read("8-2").devices()

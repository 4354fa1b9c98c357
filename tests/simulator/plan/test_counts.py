"""Plans in numbers."""

import numpy as np

from fleetledger.simulator.metrics.plan_counts import plan_counts
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from tests.simulator.plan.describing import CountSpread, describe_plan
from tests.simulator.plan.making import make_split, names, plan

LABELS = np.array([0, 0, 1, 2, 2, 2])


def hand_made() -> FleetPlan:
    def device(*indices: int, **others) -> DeviceStage:
        return DeviceStage(np.array(indices, np.int64), **others)

    first = {"device-1": device(0, 2), "device-2": device(1, 2, online=False)}
    second = {
        "device-1": device(group="old", delay_seconds=3.0),
        "device-2": device(3),
        "device-3": device(3, 4, 5, group="joined"),
    }
    stages = (StagePlan(1, (0, 1), first, ("a note",)), StagePlan(2, (2,), second))
    return FleetPlan(1, names(3), stages)


def test_counts_are_by_stage_device_and_label():
    counts = plan_counts(hand_made(), LABELS)
    assert counts.dtype == np.int64
    assert counts.tolist() == [
        [[1, 1, 0], [1, 1, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 1], [0, 0, 3]],
    ]


def test_counts_agree_with_an_obvious_loop():
    split = make_split([12] * 6)
    made = plan(
        split, stages={"count": 3}, devices={"count": 4, "partition": {"rule": "class-share"}}
    )
    expected = np.zeros((3, 4, 6), np.int64)
    for t, stage in enumerate(made.stages):
        for name, share in stage.devices.items():
            for index in share.indices:
                expected[t, made.devices.index(name), split.train.labels[index]] += 1
    assert np.array_equal(plan_counts(made, split.train.labels), expected)


def test_a_description_says_who_gets_how_much():
    first, second = describe_plan(hand_made(), LABELS)
    assert (first.stage, first.class_names) == (1, ("kind 000", "kind 001"))
    assert (first.groups, first.offline, first.late) == ({"new": 2}, 1, 0)
    assert first.images == first.classes == CountSpread(min=2, median=2.0, max=2)
    assert first.notes == ("a note",)
    assert second.groups == {"old": 1, "new": 1, "joined": 1}
    assert (second.offline, second.late) == (0, 1)
    assert second.images == CountSpread(min=1, median=2.0, max=3)
    assert second.classes == CountSpread(min=1, median=1.0, max=1)

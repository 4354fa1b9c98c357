"""The plan in numbers."""

import numpy as np
import pytest

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan

ONE, TWO = DeviceId("device-1"), DeviceId("device-2")
NAMES = (ClassName("apple"), ClassName("pear"), ClassName("plum"))


def plan() -> FleetPlan:
    """Device 2 is there from the second stage on."""
    first = {ONE: DeviceStage(np.array([0, 1, 4]))}
    second = {TWO: DeviceStage(np.array([2])), ONE: DeviceStage(np.array([], np.int64))}
    stages = (StagePlan(1, (2, 0), first), StagePlan(2, (1,), second))
    return FleetPlan(seed=1, class_names=NAMES, stages=stages)


def test_samples_are_counted_by_stage_device_and_label():
    counts = PlanCounts.of(plan(), labels=np.array([0, 0, 1, 1, 2]))
    assert counts.devices == (ONE, TWO)
    assert counts.class_names == NAMES
    assert counts.samples.tolist() == [[[2, 0, 1], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]]
    assert counts.so_far(1).tolist() == [[2, 0, 1], [0, 0, 0]]
    assert counts.so_far(2).tolist() == [[2, 0, 1], [0, 1, 0]]


def test_counts_of_another_shape_are_refused():
    with pytest.raises(MetricsError, match=r"plan counts: \(1, 1, 3\) for 2 devices"):
        PlanCounts((ONE, TWO), NAMES, np.zeros((1, 1, 3), np.int64))

"""Who holds which classes, in an order and a size that can be drawn."""

import numpy as np
import pytest

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.measurement import distribution
from fleetledger.simulator.metrics.plan_counts import PlanCounts

NAMES = tuple(ClassName(name) for name in ("apple", "pear", "plum"))


def counts(samples: np.ndarray) -> PlanCounts:
    devices = tuple(DeviceId(f"device-{number + 1}") for number in range(samples.shape[1]))
    return PlanCounts(devices, NAMES, samples)


def test_a_small_fleet_keeps_its_order_and_classes_theirs_of_coming():
    shown = distribution(counts(np.array([[[5, 0, 1], [0, 0, 2]]])), (NAMES[2], NAMES[0]))
    assert shown.devices == ("device-1", "device-2")
    assert shown.class_names == ("plum", "apple")
    assert shown.samples == ((1, 5), (2, 0))


def test_samples_of_all_stages_are_added_up():
    shown = distribution(counts(np.array([[[5, 0, 1]], [[1, 2, 0]]])), NAMES)
    assert shown.samples == ((6, 2, 1),)


def test_a_large_fleet_is_sorted_by_what_it_holds_and_sampled():
    samples = np.zeros((1, 1000, 3), np.int64)
    samples[0, np.arange(1000), np.arange(1000) % 3] = 1
    shown = distribution(counts(samples), NAMES)
    assert shown.devices_in_fleet == 1000
    assert len(set(shown.devices)) == 200
    held = [row.index(1) for row in shown.samples]
    assert held == sorted(held)
    assert [held.count(label) for label in range(3)] == pytest.approx([67, 67, 66], abs=1)


def test_devices_with_nothing_come_last():
    samples = np.zeros((1, 40, 3), np.int64)
    samples[0, 7, 1] = samples[0, 9, 0] = 1
    shown = distribution(counts(samples), NAMES)
    assert shown.devices[:2] == ("device-10", "device-8")


def test_a_class_that_the_plan_lacks_is_named():
    with pytest.raises(MetricsError, match="fig"):
        distribution(counts(np.zeros((1, 1, 3), np.int64)), (ClassName("fig"),))

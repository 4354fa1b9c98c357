"""The pooled reference, against a loop over images and the closed form."""

import numpy as np
import pytest

from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.run import sample_evaluation
from fleetledger.simulator.run.sample_evaluation import PooledReference

RIDGE = 3.0
random = np.random.default_rng(5)
LABELS = random.integers(0, 4, 40)
TEST_LABELS = random.integers(0, 4, 30)
H = random.integers(0, 9, (40, 6)).astype(np.float32)
H_TEST = random.integers(0, 9, (30, 6)).astype(np.float32)


class Features:
    seconds_per_image = 0.0

    def train(self, indices):
        return H[indices]

    def test(self, indices):
        return H_TEST[indices]


def plan() -> FleetPlan:
    """Two devices that hold some images both, and a class that never comes."""

    def stage(number, *classes):
        members = np.flatnonzero(np.isin(LABELS, classes))
        shares = {"device-1": members[:7], "device-2": members[4:]}
        devices = {name: DeviceStage(share) for name, share in shares.items()}
        return StagePlan(number, classes, devices)

    return FleetPlan(1, ("a", "b", "c", "d"), (stage(1, 2, 0), stage(2, 3)))


def slow_accuracy(number: int) -> float:
    gram, correlation = RIDGE * np.eye(6), np.zeros((6, 4))
    for stage in plan().stages[:number]:
        for device in stage.devices.values():
            for index in device.indices:
                gram += np.outer(H[index], H[index])
                correlation[:, LABELS[index]] += H[index]
    seen = plan().seen(number)
    weights = np.linalg.inv(gram) @ correlation
    asked = [i for i in range(30) if TEST_LABELS[i] in seen]
    right = [max(seen, key=lambda c: H_TEST[i] @ weights[:, c]) == TEST_LABELS[i] for i in asked]
    return sum(right) / len(right)


@pytest.mark.parametrize("at_once", [1024, 5])
def test_every_dealt_image_counts_as_often_as_it_was_dealt(at_once: int, monkeypatch):
    monkeypatch.setattr(sample_evaluation, "_AT_ONCE", at_once)
    reference = PooledReference(plan(), Features(), lambda *_sums: RIDGE)
    assert reference.accuracy(1, LABELS, TEST_LABELS) == slow_accuracy(1)
    assert reference.accuracy(2, LABELS, TEST_LABELS) == slow_accuracy(2)


def test_a_later_stage_can_be_the_first_that_is_asked():
    """As in a run that is gone on with."""
    reference = PooledReference(plan(), Features(), lambda *_sums: RIDGE)
    assert reference.accuracy(2, LABELS, TEST_LABELS) == slow_accuracy(2)

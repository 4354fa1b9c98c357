"""Which hue each picture of a run has: devices of other cameras, tests in other light."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.simulator.datasets.hue import HueShifted
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.scenario.model import Scenario


def in_hues(scenario: Scenario, split: Split, plan: FleetPlan) -> Split:
    """Return the data set in the hues that a scenario asks for; itself where it asks for none."""
    of_devices, of_tests = scenario.devices.hue, scenario.data.test_hue
    train, test = split.train, split.test
    return Split(
        train=HueShifted(train, _of_devices(plan, len(train), of_devices)) if of_devices else train,
        test=HueShifted(test, _of_tests(plan, len(test), of_tests)) if of_tests else test,
    )


def _of_devices(plan: FleetPlan, samples: int, most: float) -> npt.NDArray[np.float64]:
    """Return the shift of each training picture: that of the device that gets it, if one does."""
    own = random_stream(plan.seed, "device hue").uniform(-most, most, len(plan.devices))
    of_device = dict(zip(plan.devices, own, strict=True))
    shifts = np.zeros(samples)
    for stage in plan.stages:
        for name, part in stage.devices.items():
            shifts[part.indices] = of_device[name]
    return shifts


def _of_tests(plan: FleetPlan, samples: int, most: float) -> npt.NDArray[np.float64]:
    return random_stream(plan.seed, "test hue").uniform(-most, most, samples)

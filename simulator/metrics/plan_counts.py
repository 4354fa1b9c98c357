"""How many training images of each class a plan gives to each device, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.plan.fleet_plan import FleetPlan


@dataclass(frozen=True)
class PlanCounts:
    """The plan in numbers. Raises `MetricsError` when the shapes do not fit together."""

    devices: tuple[DeviceId, ...]
    """The K devices, as `FleetPlan.devices` orders them."""
    class_names: tuple[ClassName, ...]
    """Of the data set's C classes; labels index them."""
    samples: NDArray[np.int64]
    """Training samples by stage, device and label, (T, K, C)."""

    def __post_init__(self) -> None:
        rest = (len(self.devices), len(self.class_names))
        if self.samples.ndim != 3 or self.samples.shape[1:] != rest:
            raise MetricsError(
                f"plan counts: {self.samples.shape} for {count_of(rest[0], 'device')} and "
                f"{count_of(rest[1], 'class', 'classes')}; give (stages, devices, classes)"
            )

    @classmethod
    def of(cls, plan: FleetPlan, labels: NDArray[np.int64]) -> PlanCounts:
        """Count a plan; `labels` (N,) are those of the training samples that it deals."""
        return cls(plan.devices, plan.class_names, plan_counts(plan, labels))

    def so_far(self, stage: int) -> NDArray[np.int64]:
        """Return the samples of all stages up to number `stage`, (K, C)."""
        total: NDArray[np.int64] = self.samples[:stage].sum(axis=0)
        return total


def plan_counts(plan: FleetPlan, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return training samples by stage, device and label: (T, K, C).

    `labels` (N,) are those of the training samples; devices are in the order of `plan.devices`.
    """
    rows = {device: row for row, device in enumerate(plan.devices)}
    counts = np.zeros((len(plan.stages), len(rows), len(plan.class_names)), np.int64)
    for stage, arriving in zip(plan.stages, counts, strict=True):
        for device, share in stage.devices.items():
            arriving[rows[device]] = np.bincount(
                labels[share.indices], minlength=len(plan.class_names)
            )
    return counts

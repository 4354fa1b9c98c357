"""Arrange helpers: contributions of the pooled head made by hand, and their sum."""

from __future__ import annotations

import numpy as np

from fleetledger.methods.pooled.aggregate import PooledAggregate
from fleetledger.methods.pooled.coordinator import COORDINATOR
from fleetledger.methods.pooled.device import DEVICE
from fleetledger.methods.pooled.messages import PooledAssignment
from fleetledger.methods.statistics.linear_head import LinearHead
from tests.methods.samples import NAMES, WIDTH, Samples

FEATURES = COORDINATOR.assign({}, WIDTH)
MOMENTS = COORDINATOR.assign({"publish": "moments", "moments_minimum": 4}, WIDTH)


def payload_of(told: PooledAssignment, samples: Samples) -> bytes:
    return DEVICE.finish(told, samples.features, samples.labels).payload


def part_of(told: PooledAssignment, samples: Samples, stage: int = 1) -> PooledAggregate:
    return PooledAggregate.of(told, COORDINATOR.check(told, payload_of(told, samples)), stage)


def parts_of(
    told: PooledAssignment, samples: Samples, rows: list[np.ndarray]
) -> list[PooledAggregate]:
    return [part_of(told, samples[some]) for some in rows]


def summed(told: PooledAssignment, parts: list[PooledAggregate]) -> PooledAggregate:
    total = PooledAggregate.empty(told)
    for part in parts:
        total = total + part
    return total


def solved(told: PooledAssignment, aggregate: PooledAggregate) -> LinearHead:
    return COORDINATOR.solve(told, aggregate, NAMES)


def dealt_by_four(samples: Samples, devices: int, seed: int) -> list[np.ndarray]:
    """Return the rows of each device: of every class that it has, at least four samples."""
    random = np.random.default_rng(seed)
    labels, owner = np.array(samples.labels), np.empty(len(samples.labels), np.int64)
    for name in NAMES:
        rows = np.flatnonzero(labels == name)
        owner[rows] = np.resize(random.integers(0, devices, len(rows) // 4).repeat(4), len(rows))
    return [rows for k in range(devices) if len(rows := np.flatnonzero(owner == k))]

"""Devices that drop out of a stage, that answer late, and that are slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.scenario.sections import DeviceSettings


def draw_slowness(
    settings: DeviceSettings, devices: Sequence[DeviceId], seed: int
) -> dict[str, float]:
    """Return how many times the usual seconds each device trains: log-uniform up to the slowest."""
    drawn = random_stream(seed, "slowness").random(len(devices))
    return {n: float(settings.slowest**share) for n, share in zip(devices, drawn, strict=True)}


@dataclass(frozen=True)
class Presence:
    """How a device that is there takes part in a stage."""

    online: bool
    delay_seconds: float
    """By which it answers late; 0 for one that is offline."""


def draw_presence(
    settings: DeviceSettings, devices: Sequence[int], seed: int, stage: int
) -> Mapping[int, Presence]:
    """Draw who drops out, who is late, and by how much.

    Device n has the n-th number of each stream, so it does not matter to it who else is there, and
    a larger `dropout` or `stragglers` adds to those of a smaller one.
    """
    highest = max(devices, default=0)
    online = random_stream(seed, "dropout", stage).random(highest) >= settings.dropout
    late = random_stream(seed, "stragglers", stage).random(highest) < settings.stragglers
    delays = random_stream(seed, "delays", stage).exponential(settings.straggler_seconds, highest)
    delays[~(online & late)] = 0.0
    return {
        device: Presence(bool(online[device - 1]), float(delays[device - 1])) for device in devices
    }

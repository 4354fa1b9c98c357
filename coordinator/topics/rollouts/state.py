"""What the state knows of rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.topics.stages.state import Reported
from schemas.contributions import PartKey
from schemas.values import DeviceId


@dataclass
class RolloutsState:
    """What devices measured of candidates."""

    compared: dict[DeviceId, dict[PartKey, Reported]] = field(default_factory=dict)
    """By rollout and number of the comparison."""

    def comparison(self, device: DeviceId, key: PartKey) -> Reported | None:
        """Return what a device reported under a key."""
        return self.compared.get(device, {}).get(key)

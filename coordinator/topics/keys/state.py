"""What the state knows of devices' keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.topics.devices.state import DevicesState
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import BootId, DeviceId, Digest


@dataclass(frozen=True)
class Invitation:
    """A token that is open: the digest of its secret, and until when by the coordinator's clock."""

    digest: Digest
    expires_ns: int


@dataclass(slots=True)
class DeviceKeys:
    """Whose signature counts as a device's."""

    changed_index: int = -1
    """The entry that said last who may speak for it."""
    key: VerifyKey | None = None
    """None where nobody's does: not enrolled, or revoked."""
    invitation: Invitation | None = None
    revoked: bool = False
    """Whether nothing of the device is taken in until it is enrolled anew."""
    former_boots: frozenset[BootId] = frozenset()
    """Runs that the device has ended since it has a key: what they signed may be sent again by
    whoever recorded it."""

    @property
    def state(self) -> str:
        """What the operator is told: `invited`, `revoked`, `enrolled`, or `none` of these."""
        if self.invitation is not None:
            return "invited"
        return "revoked" if self.revoked else "none" if self.key is None else "enrolled"

    @property
    def text(self) -> str:
        """The hash of its key, `invited` or `revoked`; empty where it has none."""
        if self.state != "enrolled" or self.key is None:
            return "" if self.state == "none" else self.state
        return str(self.key.key_hash.hex())


@dataclass
class KeysState:
    """The keys of devices, as far as they were ever invited."""

    devices: DevicesState = field(repr=False, compare=False)
    """A part before this one, to read from."""
    by_device: dict[DeviceId, DeviceKeys] = field(default_factory=dict)

    def of(self, device: DeviceId) -> DeviceKeys:
        """Return whose signature counts as a device's, to read."""
        return self.by_device.get(device) or DeviceKeys()

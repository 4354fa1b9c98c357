"""What the state knows of a device's key."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.keys import VerifyKey
from schemas.values import BootId, Digest


@dataclass(frozen=True)
class Invitation:
    """A token that is open: the digest of its secret, and until when by the coordinator's clock."""

    digest: Digest
    expires_ns: int


@dataclass
class DeviceKeys:
    """Whose signature counts as a device's."""

    key: VerifyKey | None = None
    """None where nobody's does: not enrolled, or revoked."""
    invitation: Invitation | None = None
    revoked: bool = False
    """Whether nothing of the device is taken in until it is enrolled anew."""
    former_boots: set[BootId] = field(default_factory=set)
    """Runs that the device has ended since it has a key: what they signed may be sent again by
    whoever recorded it."""

"""The kinds of ledger entry about keys of devices: invited, enrolled, rotated, revoked."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from coordinator.core.entry import EntryBody
from schemas.keys import VerifyKey
from schemas.values import DeviceId, Digest

MAX_REASON = 300


class DeviceInvited(EntryBody):
    """The operator had a token made with which a device may enrol one key."""

    kind: ClassVar[str] = "device.invited"
    device: DeviceId
    invitation: Digest
    """SHA-256 of the token's secret, which itself is written nowhere in the ledger."""
    expires_ns: int = Field(ge=0)
    """Nanoseconds since 1970, by the coordinator's clock."""


class DeviceEnrolled(EntryBody):
    """A device has a key; from here on its messages count only with that key's signature."""

    kind: ClassVar[str] = "device.enrolled"
    device: DeviceId
    key: VerifyKey
    invitation: Digest
    """The invitation that it used up."""


class DeviceKeyRotated(EntryBody):
    """A device has another key, for which its former one signed."""

    kind: ClassVar[str] = "device.key_rotated"
    device: DeviceId
    key: VerifyKey
    former: VerifyKey


class DeviceKeyRevoked(EntryBody):
    """The operator shut a device out until it is enrolled anew."""

    kind: ClassVar[str] = "device.key_revoked"
    device: DeviceId
    key: VerifyKey | None
    """The key that it had; None where a token alone was taken back."""
    reason: str = Field(min_length=1, max_length=MAX_REASON)

"""The operator's commands about keys of devices."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.coordinator.topics.keys.entries import MAX_REASON
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import DeviceId, Digest


class InviteDevice(Strict):
    """Let a device enrol a key, by a token whose secret lies in the coordinator's home already."""

    verb: Literal["invite"] = "invite"
    device: DeviceId
    invitation: Digest
    """Of the token's secret."""
    expires_ns: int = Field(ge=0, lt=2**63)


class RevokeKey(Strict):
    """Take a device's key back, and its token; nothing of the device is taken in any more."""

    verb: Literal["revoke-key"] = "revoke-key"
    device: DeviceId
    reason: str = Field(min_length=1, max_length=MAX_REASON)


KeyCommand = InviteDevice | RevokeKey

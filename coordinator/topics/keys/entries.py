"""Keys of devices: invited, enrolled, rotated, revoked."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Follows, Kind, LedgerTopic, Notification
from fleetledger.coordinator.topics.devices.entries import DeviceBorn, DeviceDoubled, DeviceSettled
from fleetledger.coordinator.topics.keys.state import DeviceKeys, Invitation, KeysState
from fleetledger.runtime.times import iso_time
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import DeviceId, Digest

MAX_REASON = 300


class DeviceInvited(EntryBody):
    """The operator had a token made with which a device may enrol one key."""

    kind: ClassVar[str] = "device.invited"
    device: DeviceId
    invitation: Digest
    """SHA-256 of the token's secret, which itself is written nowhere in the ledger."""
    expires_ns: int = Field(ge=0)
    """Nanoseconds since 1970, by the coordinator's clock."""

    def say(self, at: EntryContext) -> str:
        return (
            f"Device {self.device} may enrol one key until {iso_time(self.expires_ns)}, with the "
            f"token {self.invitation.short}."
        )


def _invite(keys: KeysState, body: DeviceInvited, at: EntryContext) -> None:
    """Open an invitation, in place of an earlier one."""
    known = keys.by_device.setdefault(body.device, DeviceKeys(at.index))
    known.changed_index = at.index
    known.invitation = Invitation(body.invitation, body.expires_ns)


class DeviceEnrolled(EntryBody):
    """A device has a key; from here on its messages count only with that key's signature."""

    kind: ClassVar[str] = "device.enrolled"
    device: DeviceId
    key: VerifyKey
    invitation: Digest
    """The invitation that it used up."""

    def say(self, at: EntryContext) -> str:
        return (
            f"Device {self.device} has the key {self.key.key_hash.hex()}, by the token "
            f"{self.invitation.short}; from here on nothing else speaks for it."
        )


def _enrol(keys: KeysState, body: DeviceEnrolled, at: EntryContext) -> None:
    """Let one key speak for the device; the invitation is used up."""
    keys.by_device[body.device] = DeviceKeys(at.index, key=body.key)


class DeviceKeyRotated(EntryBody):
    """A device has another key, for which its former one signed."""

    kind: ClassVar[str] = "device.key_rotated"
    device: DeviceId
    key: VerifyKey
    former: VerifyKey

    def say(self, at: EntryContext) -> str:
        return (
            f"Device {self.device} has the key {self.key.key_hash.hex()} in place of "
            f"{self.former.key_hash.hex()}, which signed for it."
        )


def _rotate(keys: KeysState, body: DeviceKeyRotated, at: EntryContext) -> None:
    known = keys.by_device[body.device]
    known.key, known.changed_index = body.key, at.index


class DeviceKeyRevoked(EntryBody):
    """The operator shut a device out until it is enrolled anew."""

    kind: ClassVar[str] = "device.key_revoked"
    device: DeviceId
    key: VerifyKey | None
    """The key that it had; None where it had none."""
    reason: str = Field(min_length=1, max_length=MAX_REASON)

    def say(self, at: EntryContext) -> str:
        if self.key is None:
            return (
                f"The operator shut device {self.device} out until it is enrolled. "
                f"Reason: {self.reason}."
            )
        what = f"its key {self.key.key_hash.hex()}"
        return (
            f"The operator revoked {what}: device {self.device} is shut out until it is enrolled "
            f"anew. Reason: {self.reason}."
        )


def _revoke(keys: KeysState, body: DeviceKeyRevoked, at: EntryContext) -> None:
    keys.by_device[body.device] = DeviceKeys(at.index, revoked=True)


def _end_former_run(keys: KeysState, body: DeviceBorn, at: EntryContext) -> None:
    """Note of a device with a key that the run before is over."""
    known, former = keys.by_device.get(at.maker), keys.devices.admitted[at.maker].former_boot
    if known is not None and known.key is not None and former is not None:
        known.former_boots = (known.former_boots | {former}) - {body.boot}


def _hear_both(keys: KeysState, body: DeviceDoubled, _at: EntryContext) -> None:
    known = keys.by_device.get(body.device)
    if known is not None:
        known.former_boots = known.former_boots.difference(body.runs)


def _end_other(keys: KeysState, body: DeviceSettled, _at: EntryContext) -> None:
    known = keys.by_device.get(body.device)
    if known is not None and known.key is not None:
        known.former_boots = known.former_boots | {body.shut_out}


KEYS = LedgerTopic(
    "keys",
    kinds=(
        Kind(DeviceInvited, _invite),
        Kind(DeviceEnrolled, _enrol),
        Kind(DeviceKeyRotated, _rotate),
        Kind(
            DeviceKeyRevoked,
            _revoke,
            lambda body: Notification("revocation", (body.device,)),
        ),
    ),
    follows=(
        Follows(DeviceBorn, _end_former_run),
        Follows(DeviceDoubled, _hear_both),
        Follows(DeviceSettled, _end_other),
    ),
)

"""How a device gets a key that counts, and another one: by a secret once, then by its former key.

An operator's token carries a secret of 256 bits to the device. The device makes its key, and shows
that it has the secret by a MAC over fleet, device and key; the secret itself never travels. From
the coordinator's answer on, the device's messages must be signed by that key. Another key follows
it when the former one has signed the change.

`enrolment` and `key.rotation` are signed, as envelopes, by the new key: who asks for a key has it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import ClassVar

from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import KeyName, SignatureText, SigningKey, VerifyKey, signed_bytes
from fleetledger.schemas.message import Message
from fleetledger.schemas.values import DeviceId, Digest, FleetId

SECRET_BYTES = 32
_ENROLMENT = "fleetledger/enrolment/1"
_ROTATION = "fleetledger/key-rotation/1"


class Enrolment(Message):
    """A device has made its key, and shows that the operator's token is its own."""

    kind: ClassVar[str] = "enrolment"
    key: VerifyKey
    mac: Digest
    """HMAC-SHA256, with the token's secret, over fleet, device and key."""


class KeyRotation(Message):
    """A device has made another key, and its former one signed for it."""

    kind: ClassVar[str] = "key.rotation"
    key: VerifyKey
    approval: SignatureText
    """The former key's signature over fleet, device and new key."""


class Enrolled(Message):
    """The coordinator's answer to an enrolment or a rotation: this key counts now, and no other."""

    kind: ClassVar[str] = "enrolled"
    key: VerifyKey


def device_key_name(fleet: FleetId, device: DeviceId) -> KeyName:
    """Return the name that a device's key must have."""
    return KeyName(f"{fleet}/device/{device}")


def check_key_name(fleet: FleetId, device: DeviceId, key: VerifyKey) -> None:
    """Raise `SignatureError` unless a key is named after this device of this fleet."""
    expected = device_key_name(fleet, device)
    if key.name != expected:
        raise SignatureError(f"key: its name is {str(key.name)!r}; expected {str(expected)!r}")


def enrolment_mac(secret: bytes, fleet: FleetId, device: DeviceId, key: VerifyKey) -> Digest:
    """Return what shows that whoever made `key` for this device has the token's secret."""
    message = signed_bytes(_ENROLMENT, _about(fleet, device, key))
    return Digest(hmac.new(secret, message, hashlib.sha256).hexdigest())


def check_mac(secret: bytes, fleet: FleetId, device: DeviceId, enrolment: Enrolment) -> None:
    """Raise `SignatureError` unless the MAC was made with this secret, for this device and key."""
    expected = enrolment_mac(secret, fleet, device, enrolment.key)
    if not hmac.compare_digest(expected, enrolment.mac):
        raise SignatureError("mac: was not made with the secret of the token that is open")


def approve(former: SigningKey, fleet: FleetId, device: DeviceId, key: VerifyKey) -> SignatureText:
    """Return the former key's signature for the new one."""
    return SignatureText.of(former.sign(_ROTATION, _about(fleet, device, key)))


def check_approval(
    former: VerifyKey, fleet: FleetId, device: DeviceId, rotation: KeyRotation
) -> None:
    """Raise `SignatureError` unless the former key signed for the new one."""
    former.check(rotation.approval.raw, _ROTATION, _about(fleet, device, rotation.key))


def _about(fleet: FleetId, device: DeviceId, key: VerifyKey) -> bytes:
    return canonical_json({"device": device, "fleet": fleet, "key": key})

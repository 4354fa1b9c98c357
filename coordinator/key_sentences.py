"""Sentences about keys of devices."""

from __future__ import annotations

from coordinator.core import entries
from coordinator.ledger.describe import time_text
from coordinator.ledger.entries import Entry


def device_invited(body: entries.DeviceInvited, _: Entry) -> str:
    """Say who may enrol a key, and until when."""
    return (
        f"Device {body.device} may enrol one key until {time_text(body.expires_ns)} UTC, with the "
        f"token {body.invitation.short}."
    )


def device_enrolled(body: entries.DeviceEnrolled, _: Entry) -> str:
    """Say whose key counts."""
    return (
        f"Device {body.device} has the key {body.key.key_hash.hex()}, by the token "
        f"{body.invitation.short}; from here on nothing else speaks for it."
    )


def device_key_rotated(body: entries.DeviceKeyRotated, _: Entry) -> str:
    """Say which key follows which."""
    return (
        f"Device {body.device} has the key {body.key.key_hash.hex()} in place of "
        f"{body.former.key_hash.hex()}, which signed for it."
    )


def device_doubled(body: entries.DeviceDoubled, _: Entry) -> str:
    """Say that two installations have one name."""
    one, other = body.runs
    return (
        f"Two installations run as device {body.device}: {one} and {other}. What it gave stays as "
        "it is, until the operator says which one goes on."
    )


def device_settled(body: entries.DeviceSettled, _: Entry) -> str:
    """Say which of two installations goes on."""
    return (
        f"The operator let installation {body.kept} go on as device {body.device}; {body.shut_out} "
        "is shut out."
    )


def device_key_revoked(body: entries.DeviceKeyRevoked, _: Entry) -> str:
    """Say who is shut out, and why."""
    what = "its token" if body.key is None else f"its key {body.key.key_hash.hex()}"
    return (
        f"The operator revoked {what}: device {body.device} is shut out until it is enrolled anew. "
        f"Reason: {body.reason}."
    )

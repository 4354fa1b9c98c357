"""Makes tokens: with one a device's owner enrols a key."""

from __future__ import annotations

import time
from pathlib import Path

from coordinator.errors import CommandError
from coordinator.serving.engine import carry_out_waiting
from coordinator.serving.operator import send
from coordinator.settings import load
from coordinator.topics.keys.commands import InviteDevice
from coordinator.trust.invitations import Invitations
from coordinator.trust.keys import coordinator_key
from schemas.token import Token
from schemas.values import DeviceId

HOUR_NS = 3600 * 1_000_000_000


def invite(home: Path, device: DeviceId, hours: float) -> Token:
    """Admit a device where needed, and return a token that is open for so many hours.

    The coordinator of `home` records it, or this process does where none runs. Raises
    `CommandError` where the device has a key already.
    """
    fleet = load(home).fleet
    expires_ns = time.time_ns() + round(hours * HOUR_NS)
    token = Token.fresh(fleet, device, coordinator_key(home, fleet).verify_key, expires_ns)
    invitations = Invitations(home)
    invitations.keep(token)
    command = InviteDevice(device=device, invitation=token.invitation, expires_ns=expires_ns)
    try:
        send(home, command, carry_out_here=lambda: carry_out_waiting(home))
    except CommandError:
        invitations.forget(token.invitation)
        raise
    return token

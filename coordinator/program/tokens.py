"""Tokens: with one, a device's owner enrols a key."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.program.command_client import Meanwhile, nothing_else, send_all
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.keys.commands import InviteDevice
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId

HOUR_NS = 3600 * 1_000_000_000


@dataclass(frozen=True)
class Invited:
    """A token, and the entries by which it counts."""

    token: Token
    entries: tuple[int, ...]


def invite(
    home: Path, device: DeviceId, hours: float, meanwhile: Meanwhile = nothing_else
) -> Invited:
    """Admit a device where needed, and return a token that is open for so many hours.

    The coordinator of `home` records it, or this process does where none runs; `meanwhile` is as in
    `carried_out`. Raises `CommandError` where the device has a key already.
    """
    invited = invite_all(home, (device,), hours, meanwhile)[device]
    if isinstance(invited, str):
        raise CommandError(invited)
    return invited


def invite_all(
    home: Path,
    devices: Sequence[DeviceId],
    hours: float,
    meanwhile: Meanwhile = nothing_else,
) -> dict[DeviceId, Invited | str]:
    """Do the same for several devices at once; one that is refused has the reason as a text."""
    fleet = load(home).fleet
    key = coordinator_key(home, fleet).verify_key
    expires_ns = time.time_ns() + round(hours * HOUR_NS)
    tokens = [Token.fresh(fleet, device, key, expires_ns) for device in devices]
    invitations = Invitations(home)
    for token in tokens:
        invitations.keep(token)
    answers = send_all(
        home,
        [
            InviteDevice(device=token.device, invitation=token.invitation, expires_ns=expires_ns)
            for token in tokens
        ],
        meanwhile=meanwhile,
    )
    for token, answer in zip(tokens, answers, strict=True):
        if not answer.done:
            invitations.forget(token.invitation)
    return {
        token.device: Invited(token, answer.entries) if answer.done else answer.text
        for token, answer in zip(tokens, answers, strict=True)
    }

"""`fleetledger coordinator enrol | revoke | settle`: who may speak as a device, and who not."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.common import HOME, Home, command
from coordinator.serving.inviting import invite
from coordinator.topics.devices.commands import SettleTwins
from coordinator.topics.keys.commands import RevokeKey
from schemas.values import BootId, DeviceId

Device = Annotated[str, typer.Argument(help="Id of the device: its MQTT user name.")]


def enrol(
    device: Device,
    hours: Annotated[
        float, typer.Option(help="How long the token may be used.", min=0.01, max=8760)
    ] = 24.0,
    home: Home = HOME,
) -> None:
    """Print a token with which a device enrols a key of its own, once; admit it where needed."""
    token = invite(home, DeviceId(device), hours)
    typer.echo(
        f"Give this line to the owner of {device}, and to nobody else; it works once, within "
        f"{hours:g} hours.\nOn the device: fleetledger agent enrol   (it asks for the line), then "
        "start the agent.",
        err=True,
    )
    typer.echo(token.text)


def revoke(
    device: Device,
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")] = "none was given",
    home: Home = HOME,
) -> None:
    """Shut a device out whose key is lost or stolen, until it is enrolled anew."""
    command(home, RevokeKey(device=DeviceId(device), reason=reason))


def settle(
    device: Device,
    installation: Annotated[
        str, typer.Option(help="The one that goes on, as `coordinator status` names it.")
    ],
    home: Home = HOME,
) -> None:
    """Say which of two installations under one name goes on; the other one is shut out."""
    command(home, SettleTwins(device=DeviceId(device), installation=BootId(installation)))

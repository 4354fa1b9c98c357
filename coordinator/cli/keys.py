"""`fleetledger coordinator enrol | revoke | settle`: who may speak as a device, and who not."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.common import Tagged, command, for_each, say, show_action
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.provisioning.broker_access import close_access, open_access
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.commands import SettleTwins
from fleetledger.coordinator.topics.keys.commands import RevokeKey
from fleetledger.schemas import command_output
from fleetledger.schemas.command_output import ActionReport, AsJson
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.values import BootId, DeviceId

Device = Annotated[
    str,
    typer.Argument(help="Id of the device: its MQTT user name.", autocompletion=completion.devices),
]


def enrol(
    device: Device,
    hours: Annotated[
        float, typer.Option(help="How long the token may be used.", min=0.01, max=8760)
    ] = 24.0,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Print a token with which a device enrols a key of its own, once; admit it where needed."""
    invited = invite(home, DeviceId(device), hours)
    said = (
        *open_access(home),
        f"Give this line to the owner of {device}, and to nobody else; it works once, within "
        f"{count_of(hours, 'hour')}.",
        "On the device: `fleetledger agent enrol` (it asks for the line), then start the agent.",
    )
    report = ActionReport(said=said, entries=invited.entries, secret=invited.token.text)
    command_output.show_action(report, partial(say, as_json=True), as_json=as_json)


def revoke(
    device: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of devices: their MQTT user names.", autocompletion=completion.devices
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")] = "none was given",
    tag: Tagged = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about several devices.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Shut devices out, such as stolen ones, also at the broker, until they are enrolled anew."""

    def revoking(one: DeviceId) -> RevokeKey:
        return RevokeKey(device=one, reason=reason)

    chosen = DeviceChoice.read(device, tag)
    report = for_each(home, chosen, revoking, what="Shut out", yes=yes, then=close_access)
    show_action(report, as_json=as_json)


def settle(
    device: Device,
    installation: Annotated[
        str, typer.Option(help="The one that goes on, as `coordinator status` names it.")
    ],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Say which of two installations under one name goes on; the other one is shut out."""
    body = SettleTwins(device=DeviceId(device), installation=BootId(installation))
    command(home, body, as_json=as_json)

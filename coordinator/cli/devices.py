"""`fleetledger device …`: tags, pins, and devices that are gone for good."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli import common
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.home_reports import device_of, devices_of
from fleetledger.coordinator.provisioning.broker_access import close_access
from fleetledger.coordinator.topics.contributions.commands import SettleEarlier
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.commands import RetireDevice, TagDevices
from fleetledger.coordinator.topics.models.commands import PinDevices
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import AsJson
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import DeviceId

app = typer.Typer(no_args_is_help=True, help="Devices: list them, tag them, pin them, retire them.")


@app.command("list")
def list_devices(tag: common.Tagged = None, home: Home = HOME, as_json: AsJson = False) -> None:
    """Show every device with its tags, and the model that it runs or is pinned to."""
    report = devices_of(home, DeviceChoice.read(None, tag))
    command_output.show(report, as_json=as_json)


@app.command()
def show(
    device: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="An admitted device.", autocompletion=completion.devices
        ),
    ],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Show how one device is: since when it is there, what it runs, and what hinders it."""
    command_output.show(device_of(home, device), as_json=as_json)


@app.command()
def retire(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    device: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Devices that are gone for good.",
            autocompletion=completion.devices,
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")] = "none was given",
    retract: Annotated[
        bool, typer.Option("--retract", help="Take what they gave out of the sum, too.")
    ] = False,
    tagged: common.Tagged = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about several devices.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Take devices out of the fleet that do not come back; nothing waits for them any more."""

    def retiring(one: DeviceId) -> RetireDevice:
        return RetireDevice(device=one, reason=reason, retracts=retract)

    chosen = DeviceChoice.read(device, tagged)
    report = common.for_each(home, chosen, retiring, what="Retire", yes=yes, then=close_access)
    common.show_action(report, as_json=as_json)


@app.command()
def replaced(
    device: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Device with other hardware.", autocompletion=completion.devices
        ),
    ],
    earlier: Annotated[
        Literal["keep", "drop"],
        typer.Argument(
            help="keep: what it gave so far stays, as of other images. drop: it leaves."
        ),
    ],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Say what becomes of what earlier installations of a device gave."""
    body = SettleEarlier(device=DeviceId(device), kept=earlier == "keep")
    common.command(home, body, as_json=as_json)


@app.command()
def tag(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME... KEY=VALUE KEY-",
            help="Devices, tags to put, and tags to take away.",
            autocompletion=completion.devices_and_tags,
        ),
    ],
    tagged: common.Tagged = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Put tags on devices over what their owners say, or take tags away."""
    names, put, removed = _sorted_out(words)
    choice = DeviceChoice.read(names, tagged)
    body = TagDevices(devices=choice.devices, tags=choice.tags, put=put, removed=removed)
    common.command(home, body, as_json=as_json)


@app.command()
def pin(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME... VERSION",
            help="Devices, and the version that they keep.",
            autocompletion=completion.devices_and_versions,
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="End it: no VERSION is given.")] = False,
    tagged: common.Tagged = None,
    yes: common.Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Have devices run one version, whatever is desired of others, until that is ended."""
    names, version = list(words or ()), None
    if not none:
        version = _version(names.pop() if names else "")
    choice = DeviceChoice.read(names, tagged)
    body = PinDevices(devices=choice.devices, tags=choice.tags, version=version)
    reaches: tuple[str, ...] = ()
    if version is not None:
        reaches = common.confirm_push(home, body, version, yes=yes, as_json=as_json)
    common.command(home, body, as_json=as_json, reaches=reaches)


def _sorted_out(
    words: list[str],
) -> tuple[list[str], dict[TagName, TagValue], tuple[TagName, ...]]:
    """Tell names of devices from tags to put and from tags to take away."""
    names, put, removed = [], {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            put[TagName(name)] = TagValue(value)
        elif word.endswith("-"):
            removed.append(TagName(word[:-1]))
        else:
            names.append(word)
    return names, put, tuple(removed)


def _version(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        given = f"{word!r} is no version" if word else "none is given"
        raise CommandError(f"version: {given}; write it last, or --none to end a pin")
    return int(word)

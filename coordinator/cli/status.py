"""`fleetledger coordinator status`, with nothing but what reads the ledger."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.common import Tagged
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.reports.fleet import fleet_of
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.runtime.command_output import AsJson, show
from fleetledger.runtime.exit_codes import ExitCode

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="SECONDS",
        min=0.2,
        help="Draw it again every so many seconds, until interrupted.",
    ),
]


def status(
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this device; may be given several times.", autocompletion=completion.devices
        ),
    ] = None,
    tag: Tagged = None,
    home: Home = HOME,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """Show what needs a person, who is there, which model runs where and how well.

    Exits with 3 where no coordinator runs, and with 4 where something needs a person now.
    """
    choice = DeviceChoice.read(device, tag)
    if watch is None or as_json:
        fleet = fleet_of(home, choice)
        show(fleet, as_json=as_json)
        if not fleet.coordinator.running:
            raise typer.Exit(ExitCode.NOT_RUNNING)
        if any(need.urgency == "now" for need in fleet.needs):
            raise typer.Exit(ExitCode.NEEDS_A_PERSON)
        return
    from rich.live import Live  # noqa: PLC0415 - heavy, and for people who watch

    from fleetledger.runtime.console import console_for_people  # noqa: PLC0415 - as above
    from fleetledger.runtime.tables import drawn  # noqa: PLC0415

    with Live(
        drawn(fleet_of(home, choice), console_for_people().width), auto_refresh=False
    ) as screen:
        while True:
            try:
                time.sleep(watch)
                screen.update(drawn(fleet_of(home, choice), screen.console.width), refresh=True)
            except KeyboardInterrupt:
                return

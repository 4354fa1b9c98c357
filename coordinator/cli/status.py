"""`fleetledger coordinator status`: what needs a person first, then devices, stage and models."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.common import Tagged
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.reports.answers import (
    FleetNow,
)
from fleetledger.coordinator.reports.fleet import fleet_now, narrowed
from fleetledger.coordinator.reports.needs import at_home
from fleetledger.coordinator.settings import FILE_NAME, load
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.schemas.command_output import AsJson, show
from fleetledger.schemas.console import console_for_people
from fleetledger.schemas.exit_codes import ExitCode
from fleetledger.schemas.tables import drawn

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
        fleet = _read(home, choice)
        show(fleet, as_json=as_json)
        if not fleet.coordinator.running:
            raise typer.Exit(ExitCode.NOT_RUNNING)
        if any(need.urgency == "now" for need in fleet.needs):
            raise typer.Exit(ExitCode.NEEDS_A_PERSON)
        return
    with Live(drawn(_read(home, choice), console_for_people().width), auto_refresh=False) as screen:
        while True:
            try:
                time.sleep(watch)
                screen.update(drawn(_read(home, choice), screen.console.width), refresh=True)
            except KeyboardInterrupt:
                return


def _read(home: Path, choice: DeviceChoice) -> FleetNow:
    settings = load(home) if (home / FILE_NAME).is_file() else None
    named = str(settings.fleet) if settings else ""
    told = {
        "learning": settings is None or settings.learning,
        "trial": settings is not None and settings.trial,
    }
    with ledger_of(home) as ledger:
        fleet = fleet_now(ledger, read_live(home), time.time_ns(), named)
        here = tuple(at_home(need, home) for need in fleet.needs)
        fleet = fleet.model_copy(update={**told, "needs": here})
        return fleet if choice.is_open else narrowed(fleet, chosen_in(ledger, choice))

"""`fleetledger ledger inspect`: which device harms the model, told from sums alone."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import Progress

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.history import blobs_location
from fleetledger.coordinator.errors import BlobError, CommandError, LedgerError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.paths import ledger_path
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import AsJson, stop
from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.exit_codes import ExitCode


def inspect(
    stage: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Judge what was given for this stage alone.",
            autocompletion=completion.stages,
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Tell which device makes the model of the others worse, class by class."""
    from fleetledger.coordinator.models.inspection import (  # noqa: PLC0415 - methods are heavy
        inspect_ledger,
    )

    path = ledger_path(home)
    if not path.is_file():
        stop(f"--home: no ledger at {path}; give the coordinator's home folder", ExitCode.USAGE)
    console = console_for_people(stderr=True)
    try:
        with (
            ledger_of(home) as ledger,
            ledger.snapshot(),
            Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
        ):
            task = bar.add_task("devices", total=None)
            report = inspect_ledger(
                Blobs(ledger, BlobStore(blobs_location(home))),
                stage,
                lambda done, total: bar.update(task, completed=done, total=total),
            )
    except CommandError as error:
        stop(str(error), ExitCode.USAGE)
    except (LedgerError, BlobError) as error:
        stop(str(error), ExitCode.FAILED)
    command_output.show(report, as_json=as_json)
    if report.harmful or report.unlike or report.warnings:
        raise typer.Exit(ExitCode.FAILED)

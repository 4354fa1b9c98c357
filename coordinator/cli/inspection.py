"""`fleetledger ledger inspect`: which device harms the model, told from sums alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.history import blobs_location
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import BlobError, CommandError, LedgerError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.paths import ledger_path
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import AsJson, stop
from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.whole_file import write_whole

Progressing = Callable[[int, int], None]


def inspect(
    stage: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Judge what was given for this stage alone.",
            autocompletion=completion.stages,
        ),
    ] = None,
    rounds: Annotated[
        bool,
        typer.Option("--rounds", help="Inspect answers to rounds; implied where rounds lead."),
    ] = False,
    without: Annotated[
        str | None,
        typer.Option(
            help="Make the rounds again without this device.", autocompletion=completion.devices
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="File for the last weights without the device.")
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Tell which device makes the model of the others worse, or moves rounds against them."""
    from fleetledger.coordinator.models.inspection import (  # noqa: PLC0415 - methods are heavy
        inspect_ledger,
    )

    path = ledger_path(home)
    if not path.is_file():
        stop(f"--home: no ledger at {path}; give the coordinator's home folder", ExitCode.USAGE)
    if write is not None and without is None:
        stop("--write: there is nothing to write without --without DEVICE", ExitCode.USAGE)
    console = console_for_people(stderr=True)
    try:
        with (
            ledger_of(home) as ledger,
            ledger.snapshot(),
            Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
        ):
            task = bar.add_task("devices", total=None)

            def walked(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)

            if rounds or without is not None or state_of(ledger).lineages.in_rounds:
                _show_rounds(home, ledger, _Asked(stage, without, write, as_json), walked)
                return
            report = inspect_ledger(Blobs(ledger, BlobStore(blobs_location(home))), stage, walked)
    except CommandError as error:
        stop(str(error), ExitCode.USAGE)
    except (LedgerError, BlobError) as error:
        stop(str(error), ExitCode.FAILED)
    command_output.show(report, as_json=as_json)
    if report.harmful or report.unlike or report.warnings:
        raise typer.Exit(ExitCode.FAILED)


@dataclass(frozen=True)
class _Asked:
    stage: int | None
    without: str | None
    write: Path | None
    as_json: bool


def _show_rounds(home: Path, ledger: LedgerReader, asked: _Asked, walked: Progressing) -> None:
    """Show how answers to rounds lie beside each other; write weights where it is asked."""
    from fleetledger.coordinator.replay.overlay_store import KeepingStore  # noqa: PLC0415
    from fleetledger.coordinator.replay.round_inspection import (  # noqa: PLC0415 - as above
        inspect_rounds,
    )

    store = KeepingStore(blobs_location(home))
    found = inspect_rounds(home, ledger, store, asked.stage, asked.without, walked)
    if asked.write is not None and found.weights is not None:
        try:
            write_whole(asked.write, found.weights)
        except OSError as error:
            stop(f"--write: {error}", ExitCode.USAGE)
    command_output.show(found.report, as_json=asked.as_json)
    if found.report.suspicious:
        raise typer.Exit(ExitCode.FAILED)

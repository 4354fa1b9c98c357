"""`fleetledger ledger replay | retract | count-in`: models made again, contributions out or in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.common import Tagged, for_each, show_action
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import FILE_NAME, blob_folder, ledger_path
from fleetledger.coordinator.reports.reports import ReplayedResult, ReplayReport
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.contributions.commands import CountIn, RetractContributions
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.runtime import command_report
from fleetledger.runtime.command_output import AsJson, stop
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import DeviceId


def replay(
    to: Annotated[
        int | None, typer.Option(min=0, help="What was made last up to this entry.")
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(min=1, help="This version of the model.", autocompletion=completion.versions),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Everything that was made, up to --to where it is given.")
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make a past model again from the ledger and its blobs, and compare it with what it was."""
    from fleetledger.coordinator.replay import recipes  # noqa: PLC0415 - the makers need onnx
    from fleetledger.coordinator.replay.overlay_store import KeepingStore  # noqa: PLC0415
    from fleetledger.coordinator.replay.remaker import Remaking  # noqa: PLC0415

    if version is not None and (every or to is not None):
        stop("--version: give it alone, without --to and --all", ExitCode.USAGE)
    path = ledger_path(home)
    if not path.is_file():
        stop(f"--home: no ledger at {path}; give the coordinator's home folder", ExitCode.USAGE)
    with LedgerReader.open_read_only(path) as ledger:
        try:
            made = recipes.everything(ledger, to)
            if version is not None:
                made = recipes.version(made, version)
            elif not every:
                made = recipes.newest(made)
        except CommandError as error:
            stop(str(error), ExitCode.USAGE)
        remaking = Remaking(home, ledger, KeepingStore(blobs_location(home)))
        form = command_report.output_form(as_json=as_json)
        report = _told((remaking.outcome(recipe) for recipe in made), form)
    if form == "json":
        command_report.write_plain(report, form)
    if "differs" in report.counts or (not every and "cannot be made again" in report.counts):
        raise typer.Exit(ExitCode.FAILED)


def _told(outcomes: Iterable[ReplayedResult], form: command_report.OutputForm) -> ReplayReport:
    """Return what was made again; print each at once, because the next may take long."""
    done: list[ReplayedResult] = []
    if form == "tsv":
        typer.echo("\t".join(command_report.tsv_columns(ReplayReport)))
    for line in outcomes:
        done.append(line)
        if form == "tsv":
            typer.echo(
                command_report.as_tsv(ReplayReport(made=(line,), counts={}), head=False), nl=False
            )
        elif form == "table":
            typer.echo(f"{line.index}\t{line.what}\t{line.state}\t{line.detail}")
    counts = Counter(line.state for line in done)
    if form == "table":
        said = (f"{count} {state}" for state, count in counts.items())
        typer.echo(", ".join(said) or "nothing made")
    return ReplayReport(made=tuple(done), counts=dict(counts))


def retract(  # noqa: PLR0913 - each is one option of the command line
    *,
    device: Annotated[
        list[str] | None,
        typer.Argument(
            help="Devices whose contributions are taken out.", autocompletion=completion.devices
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; the device is told, the ledger keeps it.")],
    tag: Tagged = None,
    part: Annotated[
        str | None,
        typer.Option(
            help="One part alone, as STAGE/PART, or STAGE/ROUND.", autocompletion=completion.stages
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about several devices.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Take what devices gave out of the sum, for good; of rounds, mark what came of it."""
    key = None if part is None else _part(part)

    def retracting(one: DeviceId) -> RetractContributions:
        try:
            return RetractContributions(device=one, part=key, reason=reason)
        except ValidationError as error:
            stop(f"--reason: {explain(error)}", ExitCode.USAGE)

    choice = DeviceChoice.read(device, tag)
    report = for_each(home, choice, retracting, what="Retract what was given by", yes=yes)
    show_action(report, as_json=as_json)


def count_in(  # noqa: PLR0913 - each is one option of the command line
    *,
    device: Annotated[
        list[str] | None,
        typer.Argument(
            help="Devices whose contributions were set aside.", autocompletion=completion.devices
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; the ledger keeps it.")] = "",
    tag: Tagged = None,
    part: Annotated[
        str | None,
        typer.Option(help="One part alone, as STAGE/PART.", autocompletion=completion.stages),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about several devices.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Count what was set aside for what it does to the model, and do not set it aside again."""
    key = None if part is None else _part(part)

    def counting(one: DeviceId) -> CountIn:
        try:
            return CountIn(device=one, part=key, reason=reason)
        except ValidationError as error:
            stop(f"--reason: {explain(error)}", ExitCode.USAGE)

    choice = DeviceChoice.read(device, tag)
    report = for_each(home, choice, counting, what="Count what was set aside of", yes=yes)
    show_action(report, as_json=as_json)


def _part(text: str) -> PartKey:
    stage, slash, number = text.partition("/")
    if not (slash and stage.isdecimal() and number.isdecimal()):
        stop(f"--part: {text!r} is not STAGE/PART, such as 1/0", ExitCode.USAGE)
    try:
        return PartKey(stage=int(stage), part=int(number))
    except ValidationError as error:
        stop(f"--part: {explain(error)}", ExitCode.USAGE)


def blobs_location(home: Path) -> str | Path:
    """Return where the blobs of a home are: where its settings say, if it has any."""
    location = load(home).blobs if (home / FILE_NAME).is_file() else None
    return location or blob_folder(home)

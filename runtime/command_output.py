"""One way out for everything that a command shows: a table, tab-separated values or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, NoReturn, TypeVar

import typer

from fleetledger.runtime.command_report import Report, output_form, write_plain
from fleetledger.runtime.errors import NobodyToAskError
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.shown_commands import with_homes


class ActionReport(Report):
    """What every command shows that acts."""

    said: tuple[str, ...]
    """What was done, a sentence for each device or step."""
    entries: tuple[int, ...] = ()
    """Indices of the entries of the ledger that it made; empty where nothing had to change."""
    wrote: tuple[str, ...] = ()
    """Files and folders that it made or replaced."""
    secret: str | None = None
    """Token or link, which is shown this once; null where none was made."""
    reaches: tuple[str, ...] = ()
    """Whom it reaches and what changes for them, in sentences; empty where no device is meant."""
    followed: tuple[str, ...] = ()
    """What was done beside the ledger, such as at the broker."""
    refused: tuple[str, ...] = ()
    """What of it was refused; the exit code is 1 then."""


Shown = TypeVar("Shown", bound=Report)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as docs/output.md describes it.")]


def stop(text: str, code: ExitCode) -> NoReturn:
    """End the command with `code` after an error that is told in one sentence."""
    typer.echo(with_homes(text), err=True)
    raise typer.Exit(code)


def confirm(question: str, *, yes: bool, way_out: str) -> None:
    """Ask before something is done; raise `NobodyToAskError` where nobody is there to answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NobodyToAskError(f"nobody can be asked here, and nothing was done: {way_out}")
    typer.confirm(question, abort=True, err=True)


def show_report(report: Shown, draw: Callable[[Shown], None], *, as_json: bool) -> None:
    """Print a report for people with `draw`, or for programs where they are asked for."""
    form = output_form(as_json=as_json)
    if form == "table":
        draw(report)
    else:
        write_plain(report, form)


def draw(report: Report) -> None:
    """Print a report for people: sentences and tables."""
    from fleetledger.runtime.console import console_for_people  # noqa: PLC0415 - rich is heavy
    from fleetledger.runtime.tables import drawn  # noqa: PLC0415 - as above

    console = console_for_people()
    console.print(drawn(report, console.width), soft_wrap=True)


def show(report: Report, *, as_json: bool) -> None:
    """Print a report: for people on a terminal, else as TSV, or JSON."""
    show_report(report, draw, as_json=as_json)


def show_action(report: ActionReport, tell: Callable[[str], None], *, as_json: bool) -> None:
    """Print what was done: a line of `tell` for each sentence, also on a pipe, or JSON."""
    if output_form(as_json=as_json) == "json":
        told = {
            name: tuple(map(with_homes, getattr(report, name)))
            for name in ("said", "reaches", "followed", "refused")
        }
        write_plain(report.model_copy(update=told), "json")
        return
    for line in (*report.said, *report.followed):
        tell(line)
    if report.secret is not None:
        typer.echo(report.secret)

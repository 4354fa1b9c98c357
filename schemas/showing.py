"""One way out for everything that a command shows: a table, tab-separated values or JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NoReturn, TypeVar

import typer

from schemas.exit_codes import ExitCode
from schemas.shown import Report, output_form, write_plain
from schemas.shown_commands import with_homes

Shown = TypeVar("Shown", bound=Report)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as docs/output.md describes it.")]


def stop(text: str, code: ExitCode) -> NoReturn:
    """End the command with `code` after an error that is told in one sentence."""
    typer.echo(with_homes(text), err=True)
    raise typer.Exit(code)


def show_report(report: Shown, draw: Callable[[Shown], None], *, as_json: bool) -> None:
    """Print a report for people with `draw`, or for programs where they are asked for."""
    form = output_form(as_json=as_json)
    if form == "table":
        draw(report)
    else:
        write_plain(report, form)

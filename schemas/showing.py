"""One way out for everything that a command shows: a table, tab-separated values or JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from schemas.shown import Report, output_form, write_plain

Shown = TypeVar("Shown", bound=Report)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as docs/output.md describes it.")]


def show_report(report: Shown, draw: Callable[[Shown], None], *, as_json: bool) -> None:
    """Print a report for people with `draw`, or for programs where they are asked for."""
    form = output_form(as_json=as_json)
    if form == "table":
        draw(report)
    else:
        write_plain(report, form)

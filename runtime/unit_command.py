"""`fleetledger unit`: print a systemd unit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetledger.runtime.systemd_units import PROGRAM, ServiceUnit, UnitKind


def unit(
    kind: Annotated[UnitKind, typer.Argument(metavar="PROGRAM", help="Which one it runs.")],
    home: Annotated[
        Path | None, typer.Option(help="Its home; below /var/lib systemd makes it.")
    ] = None,
    program: Annotated[Path, typer.Option(help="Where `fleetledger` is installed.")] = PROGRAM,
    user: Annotated[str | None, typer.Option(help="Whose rights it has.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="A further group, such as video or render; may be given again."),
    ] = None,
) -> None:
    """Print the systemd unit of a program that runs for good: notify, watchdog, sandbox."""
    made = ServiceUnit(kind, home=home, program=program, user=user, groups=tuple(group or ()))
    typer.echo(made.text(), nl=False)

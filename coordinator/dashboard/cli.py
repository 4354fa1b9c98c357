"""`fleetledger dashboard`: pages that show a fleet, and act on it by the operator's inbox."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.dashboard.serving import DEFAULT_PORT, Listening, serve
from coordinator.errors import CommandError
from coordinator.settings import DEFAULT_HOME, HOME_VARIABLE

Home = Annotated[
    Path,
    typer.Option(
        "--home", envvar=HOME_VARIABLE, help="Home folder of the coordinator.", file_okay=False
    ),
]
HOME = Path(DEFAULT_HOME)

app = typer.Typer(invoke_without_command=True, help="Show the fleet on pages that a browser reads.")


@app.callback()
def dashboard(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    context: typer.Context,
    home: Home = HOME,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 for any that is free.", min=0, max=65535)
    ] = DEFAULT_PORT,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="Name under which it may be reached; may be given several times."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain, PEM.", dir_okay=False)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.", dir_okay=False)] = None,
) -> None:
    """Serve the pages until stopped."""
    if context.invoked_subcommand is not None:
        return
    if (tls_cert is None) is not (tls_key is None):
        raise CommandError("--tls-cert and --tls-key belong together: give both, or neither")
    listening = Listening(host, port, tuple(allowed_host or ()), tls_cert, tls_key)
    serve(home, listening, _say)


def _say(line: str) -> None:
    Console().print(line, markup=False, soft_wrap=True)

"""`fleetledger dashboard`: pages that show a fleet, and act on it by the operator's inbox."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator.dashboard.program import DEFAULT_PORT, link, serve
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.reports.reports import ListedToken, TokensReport
from fleetledger.coordinator.settings import load
from fleetledger.runtime.command_output import ActionReport, AsJson, show, show_action
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.log_lines import LogFormat, LogLevel
from fleetledger.runtime.log_options import FormatOption, LevelOption
from fleetledger.runtime.log_setup import logging_on
from fleetledger.runtime.private_file import keep_private
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person, Role, own_name
from fleetledger.transport.pages.server import ListenAddress

RoleOption = Annotated[Role, typer.Option(help="What they may: see, or see and act.")]

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
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            help="Address of the proxy before it, whose X-Forwarded-For is believed; by default "
            "nobody's is."
        ),
    ] = None,
    per_device: Annotated[
        bool, typer.Option("--per-device", help="Name each device in /metrics.")
    ] = False,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
) -> None:
    """Serve the pages until stopped."""
    if context.invoked_subcommand is not None:
        return
    listening = ListenAddress.of(host, port, allowed_host or (), tls_cert, tls_key)
    listening = replace(listening, proxy=behind_proxy)
    with logging_on(log_format, log_level):
        keep_private(home)
        serve(home, listening, own_name(), _say, per_device=per_device)


@app.command("link")
def make_link(
    name: Annotated[str, typer.Argument(help="Who it is for; entries will say so.")],
    role: RoleOption = Role.VIEWER,
    url: Annotated[
        str, typer.Option(help="Address of the dashboard.")
    ] = f"http://127.0.0.1:{DEFAULT_PORT}",
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Print a link that lets somebody in once, within a day."""
    load(home)
    made = link(home, url.rstrip("/"), Person(name, role))
    show_action(ActionReport(said=(), secret=made), _say, as_json=as_json)


@app.command("token")
def token(
    name: Annotated[str | None, typer.Argument(help="Name of the program.")] = None,
    role: RoleOption = Role.VIEWER,
    listed: Annotated[bool, typer.Option("--list", help="Show whose tokens there are.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="End NAME's tokens.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Print a bearer token for a program, once; or list and revoke tokens."""
    load(home)
    tokens = Doors.of(home, time.time_ns).tokens
    if listed:
        rows = (
            ListedToken(name=grant.name, role=grant.role.value, made=grant.made_ns)
            for grant in tokens.all()
        )
        show(TokensReport(tokens=tuple(rows)), as_json=as_json)
        return
    if name is None:
        raise CommandError("say whose token: `fleetledger dashboard token NAME`, or --list")
    if revoke:
        ended = tokens.revoke(name)
        if not ended:
            raise CommandError(f"{name} has no token; `fleetledger dashboard token --list`")
        done = ActionReport(said=(f"{count_of(ended, 'token')} of {name} revoked",))
    else:
        done = ActionReport(said=(), secret=tokens.make(Person(name, role), time.time_ns()))
    show_action(done, _say, as_json=as_json)


def _say(line: str) -> None:
    typer.echo(line)

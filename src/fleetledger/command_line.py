"""The command line: maps each verb to the room that answers it.

A room is imported when its verb is used and not before, so `fleetledger --help` needs neither
NumPy nor an ONNX runtime, and a device never imports what only the coordinator uses. Exit codes
are those of `runtime/exit_codes.py`.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup

DEBUG_VARIABLE = "FLEETLEDGER_DEBUG"


@dataclass(frozen=True)
class Verb:
    """Where a verb lives (`module:attribute`, a Typer app or a function) and what it does."""

    target: str
    help: str
    alone: Mapping[str, str] = field(default_factory=dict)
    """Its commands that are used all day -> where each is, to import nothing of the others."""


VERBS = {
    "agent": Verb(
        "fleetledger.device_agent.cli.commands:app",
        "On a device: contribute statistics of private images, run the fleet's model.",
    ),
    "coordinator": Verb(
        "fleetledger.coordinator.cli.coordinator:app",
        "Lead a fleet: admit devices, open stages, serve.",
        {"status": "fleetledger.coordinator.cli.status:status"},
    ),
    "device": Verb(
        "fleetledger.coordinator.cli.devices:app",
        "List devices with their tags; tag them, pin them to a version, retire them.",
    ),
    "class": Verb(
        "fleetledger.coordinator.cli.classes:app", "List, rename and merge the classes of a fleet."
    ),
    "model": Verb(
        "fleetledger.coordinator.cli.models:app",
        "See which model runs where and why; push, hold and take back models.",
    ),
    "rollout": Verb(
        "fleetledger.coordinator.cli.rollouts:app",
        "Take a model to the fleet group by group, as long as devices measure that it holds.",
    ),
    "trust": Verb(
        "fleetledger.coordinator.cli.trust:app",
        "Say by which keys devices install: make, rotate and revoke root and release keys.",
    ),
    "ledger": Verb("fleetledger.coordinator.cli.ledger:app", "Read the ledger and verify it."),
    "dashboard": Verb(
        "fleetledger.coordinator.dashboard.cli:app",
        "Show the fleet on pages that a browser reads, live.",
    ),
    "bundle": Verb(
        "fleetledger.coordinator.cli.bundles:app",
        "Make, verify and install fleetledger with all that it needs, without a network.",
    ),
    "unit": Verb(
        "fleetledger.runtime.unit_command:unit",
        "Print the systemd unit of a program that runs for good.",
    ),
    "simulate": Verb(
        "fleetledger.simulator.cli:simulate",
        "Replay a fleet of up to thousands of devices on this machine, from a scenario.",
    ),
    "new": Verb(
        "fleetledger.simulator.new.command:new",
        "Write a package of your own, method, network, data set or application, that runs at once.",
    ),
    "demo": Verb(
        "fleetledger.simulator.cli:demo",
        "A broker, a coordinator and five devices learn digits on this machine.",
    ),
    "attack": Verb(
        "fleetledger.simulator.attack.cli:app",
        "Try out what an eavesdropper gets: pictures from the gradients that a proxy is sent.",
    ),
}

EXTRAS = {
    "amqtt": "broker",
    "fsspec": "coordinator",
    "jinja2": "simulator",
    "matplotlib": "simulator",
    "onnx": "coordinator",
    "packaging": "coordinator",
    "onnxruntime": "cpu",
    "prometheus_client": "dashboard",
    "scipy": "sbd",
    "sse_starlette": "dashboard",
    "starlette": "dashboard",
    "threadpoolctl": "coordinator",
    "torch": "train",
    "torchvision": "train",
    "uvicorn": "dashboard",
}
"""Import name of an optional package -> the extra that installs it."""


ERROR_ROOTS = {
    ("fleetledger.runtime.errors", "FleetledgerError"),
    ("fleetledger.learning.errors", "LearningError"),
}
"""Bases of the errors that are raised on purpose, by name: to know one needs no import."""


class LazyGroup(TyperGroup):
    """A group whose verbs are placeholders for the help page until one is chosen."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:  # noqa: ANN401 - Typer carries its own Click
        """Return the chosen verb, its loaded command and the arguments left for it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name, rest[:1]) if name in VERBS else command, rest


def _imported(module: str) -> ModuleType:
    """Import a room, and look for no garbage meanwhile: what is made stays; a start is short."""
    was = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if was:
            gc.enable()


def load(verb: str, first: Sequence[str] = ()) -> Any:  # noqa: ANN401 - Typer carries its own Click
    """Import the room behind `verb` and return its command, ready to run.

    Where `first`, the argument after it if any, is a command that stands alone, the group has
    this command only.
    """
    alone = next((one for one in first if one in VERBS[verb].alone), None)
    target = VERBS[verb].target if alone is None else VERBS[verb].alone[alone]
    module, _, attribute = target.partition(":")
    loaded = getattr(_imported(module), attribute)
    if alone is not None:
        group = typer.Typer(callback=_placeholder)
        group.command(alone)(loaded)
        loaded = group
    holder = typer.Typer(add_completion=False, callback=_placeholder)
    if isinstance(loaded, typer.Typer):
        holder.add_typer(loaded, name=verb, help=VERBS[verb].help)
    else:
        holder.command(name=verb)(loaded)
    held = typer.main.get_command(holder)
    assert isinstance(held, TyperGroup)
    return held.commands[verb]


def _placeholder() -> None:
    """Stand in the help page for a command that is loaded when it is used."""


app = typer.Typer(
    name="fleetledger",
    cls=LazyGroup,
    no_args_is_help=True,
    # Tracebacks are plain and for bugs only: Typer's would print the values of local variables.
    pretty_exceptions_enable=False,
)
for _name, _verb in VERBS.items():
    app.command(name=_name, help=_verb.help)(_placeholder)


def _version_and_no_more(asked: bool) -> None:
    if asked:
        tell_version(as_json=False)
        raise typer.Exit


@app.callback()
def _root(
    debug: bool = typer.Option(
        False, "--debug", help=f"Show the traceback of an error (or set {DEBUG_VARIABLE}=1)."
    ),
    _version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        callback=_version_and_no_more,
        help="Print the version, as `version` does.",
    ),
) -> None:
    """Deploy a fleet that keeps learning: exact statistics up, a ledger, ONNX models down."""
    if debug:
        # An environment variable, because the processes that `demo` starts shall see it too.
        os.environ[DEBUG_VARIABLE] = "1"


HOMES = {
    "coordinator": ("FLEETLEDGER_COORDINATOR", "coordinator-home", "coordinator.toml"),
    "agent": ("FLEETLEDGER_AGENT", "agent-home", "agent.toml"),
}
"""Verb with a status -> the variable that names its home, its usual home, its settings there."""


@app.command("status", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def tell_status(
    context: typer.Context,
    home: str = typer.Option("", metavar="DIR", help="Home of a coordinator or an agent."),
) -> None:
    """Show the status of the fleet or device whose home lies here.

    The same as `coordinator status` or `agent status`, with their options and exit codes.
    """
    found = [
        (verb, place)
        for verb, (variable, usual, settings) in HOMES.items()
        if Path(place := home or os.environ.get(variable, usual), settings).is_file()
    ]
    if not found:
        from fleetledger.runtime.exit_codes import ExitCode

        where = home or "coordinator-home and agent-home"
        typer.echo(
            f"fleetledger: status: {where}: no coordinator or agent was set up there; say "
            "`--home DIR`, or set one up: `fleetledger coordinator init --fleet NAME`, "
            "`fleetledger agent init --device NAME --fleet NAME`",
            err=True,
        )
        raise typer.Exit(ExitCode.FAILED)
    verb, place = found[0]
    for other, there in found[1:]:
        typer.echo(f"also here: `fleetledger {other} status --home {there}`", err=True)
    words = ["status", "--home", place, *context.args]
    load(verb, words[:1]).main(words, prog_name=f"fleetledger {verb}")


@app.command("version")
def tell_version(
    as_json: bool = typer.Option(False, "--json", help="Print JSON, as docs/output.md says."),
) -> None:
    """Print the version of fleetledger and of the Python that runs it."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    release, python = None, sys.version.split()[0]
    with suppress(PackageNotFoundError):
        release = installed_version("fleetledger")
    if as_json:
        from fleetledger.runtime.command_report import VersionReport, write_plain

        write_plain(VersionReport(fleetledger=release, python=python), "json")
    else:
        typer.echo(f"fleetledger {release or 'from a source folder'} (Python {python})")


def main() -> None:
    """Run the command line; an error raised on purpose becomes its text and exit code 1, or 4."""
    if sys.argv[1:] and "--help" not in sys.argv and not sys.stderr.isatty():
        app.rich_markup_mode = None  # an error about usage is one line in a log, without a frame
    try:
        app(prog_name="fleetledger")
    except Exception as error:
        text = explain(error)
        if text is None or os.environ.get(DEBUG_VARIABLE) == "1":
            raise
        from fleetledger.runtime.errors import NobodyToAskError
        from fleetledger.runtime.exit_codes import ExitCode
        from fleetledger.runtime.shown_commands import with_homes

        typer.echo(f"fleetledger: {with_homes(text)}", err=True)
        asks = isinstance(error, NobodyToAskError)
        sys.exit(ExitCode.NEEDS_A_PERSON if asks else ExitCode.FAILED)


def explain(error: Exception) -> str | None:
    """Return what to tell the person at the keyboard, or None where `error` is a bug."""
    names = {(base.__module__, base.__qualname__) for base in type(error).__mro__}
    if names & ERROR_ROOTS:
        return str(error)
    if isinstance(error, ImportError):
        return _explain_missing(error)
    return None


def _explain_missing(error: ImportError) -> str | None:
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    from fleetledger.runtime.pip_command import pip_install

    text = f"this needs {package} ({error}): {pip_install(extra)}"
    if package == "onnxruntime":
        text += " (on a Jetson, NVIDIA's wheel instead: see `fleetledger agent doctor`)"
    return text

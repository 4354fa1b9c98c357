"""What the operator's verbs share: the home folder, sending a command, saying a line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.core.commands import Command
from coordinator.errors import CommandError
from coordinator.serving.engine import carry_out_waiting
from coordinator.serving.operator import send
from coordinator.settings import DEFAULT_HOME, HOME_VARIABLE
from schemas.values import ClassName, DeviceId

Home = Annotated[
    Path,
    typer.Option(
        "--home", envvar=HOME_VARIABLE, help="Home folder of the coordinator.", file_okay=False
    ),
]
HOME = Path(DEFAULT_HOME)


def command(home: Path, body: Command) -> None:
    """Have a command carried out and print its answer; raise `CommandError` if it was refused."""
    Console().print(send(home, body, carry_out_here=lambda: carry_out_waiting(home)), markup=False)


def say(text: str) -> None:
    """Print a line as it is."""
    Console().print(text, markup=False, soft_wrap=True)


def confirm(question: str, *, yes: bool, way_out: str) -> None:
    """Ask before something is done; raise `CommandError` where nobody is there to answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"nobody can be asked here, and nothing was done: {way_out}")
    typer.confirm(question, abort=True)


def class_names(names: list[str]) -> tuple[ClassName, ...]:
    """Check names given on the command line."""
    return tuple(ClassName(name) for name in names)


def device_ids(devices: list[str]) -> tuple[DeviceId, ...]:
    """Check device ids given on the command line."""
    return tuple(DeviceId(device) for device in devices)

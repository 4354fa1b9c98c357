"""What the operator's verbs share: the home folder, sending a command, saying a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from coordinator.core.commands import Command
from coordinator.core.formatting import some
from coordinator.errors import CommandError
from coordinator.ledger.reader import ledger_of
from coordinator.reading.foretold import foretold_push
from coordinator.serving.operator import here, send
from coordinator.topics.devices.choosing import DeviceChoice
from coordinator.topics.devices.views import chosen_in
from schemas.console import console_for_people
from schemas.shown_commands import with_homes
from schemas.values import ClassName, DeviceId

Tagged = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="NAME[=VALUE]",
        help="Only devices with this tag; of several given all must fit.",
    ),
]

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def command(home: Path, body: Command) -> None:
    """Have a command carried out and print its answer; raise `CommandError` if it was refused."""
    say(send(home, body, carry_out_here=here(home)))


def say(text: str) -> None:
    """Print a line for people; its commands find the home that was given."""
    console_for_people().print(with_homes(text), markup=False, soft_wrap=True)


def confirm(question: str, *, yes: bool, way_out: str) -> None:
    """Ask before something is done; raise `CommandError` where nobody is there to answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"nobody can be asked here, and nothing was done: {way_out}")
    typer.confirm(question, abort=True)


def confirm_push(
    home: Path, choice: DeviceChoice, version: int, *, yes: bool, over_pins: bool = False
) -> None:
    """Say what sending a version would do, and ask; raise `CommandError` as `confirm` does."""
    with ledger_of(home) as ledger:
        lines = foretold_push(ledger, choice, version, over_pins=over_pins)
    for line in lines:
        say(line)
    confirm("Send it?", yes=yes, way_out="say --yes if it is meant so")


def class_names(names: list[str]) -> tuple[ClassName, ...]:
    """Check names given on the command line."""
    return tuple(ClassName(name) for name in names)


def for_each(
    home: Path,
    choice: DeviceChoice,
    ask: Callable[[DeviceId], Command],
    *,
    what: str,
    yes: bool,
    then: Callable[[Path], Iterable[str]] = lambda _: (),
) -> None:
    """Have a command carried out for each device that is meant, after asking about several.

    One that is refused keeps no other from it. Raises `CommandError` where nobody is named or
    meant, and with all that was refused. `what` is done, as in "Shut out"; `then` follows once for
    all of them, and its lines are printed.
    """
    if choice.is_open:
        raise CommandError("device: none is named; name devices, or choose some by `--tag`")
    devices = choice.devices or ()
    if choice.tags or len(devices) > 1:
        with ledger_of(home) as ledger:
            devices = chosen_in(ledger, choice)
        meant = f"{len(devices)} device{'s' if len(devices) > 1 else ''}: {some(devices)}"
        confirm(f"{what} {meant}?", yes=yes, way_out=f"say --yes if it is meant of {meant}")
    refused = []
    for device in devices:
        try:
            command(home, ask(device))
        except CommandError as error:
            refused.append(str(error))
    for line in then(home):
        say(line)
    if refused:
        raise CommandError("; ".join(refused))

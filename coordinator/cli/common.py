"""What the operator's verbs share: the home folder, sending a command, saying a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import ActionReport, confirm
from fleetledger.runtime.shown_commands import with_homes
from fleetledger.schemas.values import ClassName, DeviceId

if TYPE_CHECKING:  # what acts is imported by the commands that act
    from fleetledger.coordinator.core.commands import Command
    from fleetledger.coordinator.topics.models.commands import PinDevices, PushModel

Tagged = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="NAME[=VALUE]",
        help="Only devices with this tag; of several given all must fit.",
        autocompletion=completion.tags,
    ),
]

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def command(
    home: Path,
    body: Command,
    *,
    as_json: bool = False,
    reaches: Iterable[str] = (),
    then: Callable[[Path], Iterable[str]] = lambda _: (),
) -> None:
    """Have a command carried out and print its answer; raise `CommandError` if it was refused.

    `reaches` are the sentences that were said of it before; `then` follows it in the home.
    """
    from fleetledger.coordinator.program.command_client import carried_out  # noqa: PLC0415

    answer = carried_out(home, body)
    report = ActionReport(
        said=(answer.text,),
        entries=answer.entries,
        reaches=tuple(reaches),
        followed=tuple(then(home)),
    )
    show_action(report, as_json=as_json)


def show_action(report: ActionReport, *, as_json: bool) -> None:
    """Print what was done; raise `CommandError` with what was refused."""
    command_output.show_action(report, say, as_json=as_json)
    if report.refused:
        raise CommandError("; ".join(report.refused))


def done(*said: str, as_json: bool, wrote: Iterable[Path | str] = ()) -> None:
    """Print what was done beside the ledger, with what was written."""
    show_action(ActionReport(said=said, wrote=tuple(map(str, wrote))), as_json=as_json)


def say(text: str, *, as_json: bool = False) -> None:
    """Print a line for people; its commands find the home that was given.

    With `as_json` it goes to standard error, since standard output is for programs.
    """
    from fleetledger.runtime.console import console_for_people  # noqa: PLC0415 - rich is heavy

    console_for_people(stderr=as_json).print(with_homes(text), markup=False, soft_wrap=True)


def confirm_push(
    home: Path, body: PushModel | PinDevices, version: int, *, yes: bool, as_json: bool
) -> tuple[str, ...]:
    """Return what sending a version will do, after saying it and asking.

    Raises `NobodyToAskError` as `confirm` does.
    """
    from fleetledger.coordinator.ledger.reader import ledger_of  # noqa: PLC0415 - with what needs it
    from fleetledger.coordinator.reports.command_previews import preview_push  # noqa: PLC0415
    from fleetledger.coordinator.topics.models.commands import PinDevices  # noqa: PLC0415
    from fleetledger.coordinator.trust.release_key import waits_for_key  # noqa: PLC0415

    choice = DeviceChoice(devices=body.devices, tags=body.tags)
    over_pins = isinstance(body, PinDevices)
    with ledger_of(home) as ledger:
        lines = preview_push(
            ledger, choice, version, over_pins=over_pins, unsigned=waits_for_key(home)
        )
    for line in lines:
        say(line, as_json=as_json)
    confirm("Send it?", yes=yes, way_out="say --yes if it is meant so")
    return lines


def class_names(names: list[str]) -> tuple[ClassName, ...]:
    """Check names given on the command line; raise `CommandError` for the name of a file."""
    for name in names:
        if Path(name).suffix and Path(name).is_file():
            raise CommandError(
                f"class: {name!r} is a file; write the names of the classes themselves"
            )
    return tuple(ClassName(name) for name in names)


def for_each(
    home: Path,
    choice: DeviceChoice,
    ask: Callable[[DeviceId], Command],
    *,
    what: str,
    yes: bool,
    then: Callable[[Path], Iterable[str]] = lambda _: (),
) -> ActionReport:
    """Have a command carried out for each device that is meant, after asking about several.

    One that is refused keeps no other from it. `what` is done, as in "Shut out"; `then` follows
    once for all of them. Raises `CommandError` where nobody is named or meant, and as `confirm`.
    """
    from fleetledger.coordinator.ledger.reader import ledger_of  # noqa: PLC0415 - with what needs it
    from fleetledger.coordinator.program.command_client import carried_out  # noqa: PLC0415
    from fleetledger.coordinator.topics.devices.views import chosen_in  # noqa: PLC0415

    if choice.is_open:
        raise CommandError("device: none is named; name devices, or choose some by `--tag`")
    devices = choice.devices or ()
    if choice.tags or len(devices) > 1:
        with ledger_of(home) as ledger:
            devices = chosen_in(ledger, choice)
        meant = f"{len(devices)} device{'s' if len(devices) > 1 else ''}: {some(devices)}"
        confirm(f"{what} {meant}?", yes=yes, way_out=f"say --yes if it is meant of {meant}")
    answers, refused = [], []
    for device in devices:
        try:
            answers.append(carried_out(home, ask(device)))
        except CommandError as error:
            refused.append(str(error))
    return ActionReport(
        said=tuple(answer.text for answer in answers),
        entries=tuple(index for answer in answers for index in answer.entries),
        followed=tuple(then(home)),
        refused=tuple(refused),
    )

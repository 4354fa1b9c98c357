"""`fleetledger ledger replay | retract`: past models made again, contributions taken out of them.

Exit codes: 0 what was asked for is equal, or within the tolerance; 1 something differs, or the one
thing that was asked for cannot be made again; 2 usage, also where there is no ledger.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError

from coordinator.cli.common import HOME, Home, command
from coordinator.errors import CommandError
from coordinator.ledger.reader import LedgerReader
from coordinator.paths import blob_folder, ledger_path
from coordinator.settings import FILE_NAME, load
from coordinator.topics.contributions.commands import RetractContributions
from schemas.contributions import PartKey
from schemas.message import explain
from schemas.values import DeviceId

_FAILED = 1
_USAGE = 2


def replay(
    to: Annotated[
        int | None, typer.Option(min=0, help="What was made last up to this entry.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="This version of the model.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Everything that was made, up to --to where it is given.")
    ] = False,
    home: Home = HOME,
) -> None:
    """Make a past model again from the ledger and its blobs, and compare it with what it was."""
    from coordinator.replay import choosing  # noqa: PLC0415 - the makers need onnx
    from coordinator.replay.keeping import KeepingStore  # noqa: PLC0415
    from coordinator.replay.remaking import Remaking  # noqa: PLC0415

    if version is not None and (every or to is not None):
        _stop("--version: give it alone, without --to and --all", _USAGE)
    path = ledger_path(home)
    if not path.is_file():
        _stop(f"--home: no ledger at {path}; give the coordinator's home folder", _USAGE)
    with LedgerReader.open_read_only(path) as ledger:
        try:
            made = choosing.everything(ledger, to)
            if version is not None:
                made = choosing.version(made, version)
            elif not every:
                made = choosing.newest(made)
        except CommandError as error:
            _stop(str(error), _USAGE)
        remaking = Remaking(home, ledger, KeepingStore(blobs_location(home)))
        states: Counter[str] = Counter()
        for recipe in made:
            outcome = remaking.outcome(recipe)
            states[outcome.state] += 1
            typer.echo(f"{outcome.index}\t{outcome.what}\t{outcome.state}\t{outcome.detail}")
    typer.echo(", ".join(f"{count} {state}" for state, count in states.items()) or "nothing made")
    if states["differs"] or (not every and states["cannot be made again"]):
        raise typer.Exit(_FAILED)


def retract(
    device: Annotated[str, typer.Argument(help="Device whose contributions are taken out.")],
    reason: Annotated[str, typer.Option(help="Why; the device is told, the ledger keeps it.")],
    part: Annotated[
        str | None, typer.Option(help="One part alone, as STAGE/PART, or STAGE/ROUND.")
    ] = None,
    home: Home = HOME,
) -> None:
    """Take what a device gave out of the sum, for good; of rounds, mark what came of it."""
    try:
        body = RetractContributions(
            device=DeviceId(device), part=None if part is None else _part(part), reason=reason
        )
    except ValidationError as error:
        _stop(f"--reason: {explain(error)}", _USAGE)
    command(home, body)


def _part(text: str) -> PartKey:
    stage, slash, number = text.partition("/")
    if not (slash and stage.isdecimal() and number.isdecimal()):
        _stop(f"--part: {text!r} is not STAGE/PART, such as 1/0", _USAGE)
    try:
        return PartKey(stage=int(stage), part=int(number))
    except ValidationError as error:
        _stop(f"--part: {explain(error)}", _USAGE)


def blobs_location(home: Path) -> str | Path:
    """Return where the blobs of a home are: where its settings say, if it has any."""
    location = load(home).blobs if (home / FILE_NAME).is_file() else None
    return location or blob_folder(home)


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)

"""`fleetledger ledger mirror` and `restore`: a copy of the ledger elsewhere, and the way back."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from fleetledger.coordinator.cli.common import done
from fleetledger.coordinator.cli.history import blobs_location
from fleetledger.coordinator.errors import AuditError, BlobError, KeyFileError, LedgerError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger import keys
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.mirror import Advanced, Mirror
from fleetledger.coordinator.ledger.mirror_notes import MirrorNote, place_of, write_note
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.ledger.restore import LedgerOwner
from fleetledger.coordinator.ledger.restore import restore as restore_ledger
from fleetledger.coordinator.paths import FILE_NAME, ledger_path
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.runtime.command_output import ActionReport, AsJson, stop
from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.keys import VerifyKey, read_verify_key
from fleetledger.schemas.values import FleetId
from fleetledger.transport.backoff import Backoff

Url = Annotated[
    str, typer.Argument(help="A folder, or a URL of fsspec's such as s3://bucket/fleet.")
]


def mirror(
    url: Url,
    home: Home = HOME,
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Go on with what comes, until stopped.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="How often --follow looks for entries.")
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Copy the ledger and its blobs to a folder or object store, beside a running coordinator."""
    if not follow and not ledger_path(home).is_file():
        stop(
            f"--home: no ledger at {ledger_path(home)}; give the coordinator's home folder",
            ExitCode.USAGE,
        )
    with _told():
        fleet, stopped = load(home).fleet, threading.Event()
        if follow:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stopped.set())
            if not _await_first_start(home, seconds, stopped):
                return
        read_note = keys.note_reader(home, fleet)
        if read_note is None:
            raise AuditError("checkpoint: none is signed yet; start the coordinator once")
        copy = Mirror(url, read_note, Prunings)
        with ledger_of(home) as ledger:
            blobs = Blobs(ledger, BlobStore(blobs_location(home)))
            if follow:
                book = _Notebook(home, place_of(url), copy, as_json=as_json)
                _follow(book, ledger, blobs, seconds, stopped)
            else:
                _advance(copy, url, ledger, blobs, as_json=as_json)


def _advance(copy: Mirror, url: str, ledger: LedgerReader, blobs: Blobs, *, as_json: bool) -> None:
    """Print what each step did once it is done, or all of them as one report."""
    said = []
    for step in copy.steps(ledger, blobs):
        said.append(str(step))
        if not as_json:
            typer.echo(step)
    if as_json or not said:
        told = tuple(said) or ("the mirror has all that is signed",)
        done(*told, as_json=as_json, wrote=[url] if said else [])


def _await_first_start(home: Path, seconds: float, stopped: threading.Event) -> bool:
    """Wait until the coordinator has made key and ledger; return False where it is stopped."""
    lacking = _lacking(home)
    if lacking is not None:
        typer.echo(f"{lacking}; waiting for the coordinator to start", err=True)
    while lacking is not None and not stopped.wait(seconds):
        lacking = _lacking(home)
    return lacking is None


def _lacking(home: Path) -> str | None:
    """Return why there is nothing to mirror yet; None where there is."""
    if keys.public_key(home) is None:
        return f"--home: no key in {keys.key_folder(home)}"
    try:
        ledger_of(home).close()
    except LedgerError as error:
        return str(error)
    return None


@dataclass
class _Notebook:
    """Tells the coordinator beside it how a mirror does, without writing the same at every look."""

    home: Path
    place: str
    copy: Mirror
    as_json: bool = False
    written: MirrorNote | None = None

    def tell(self, step: Advanced) -> None:
        """Print what a step did, in a line."""
        shown = ActionReport(said=(str(step),), wrote=(self.place,))
        typer.echo(shown.model_dump_json() if self.as_json else str(step))

    def note(self, refused: str | None = None) -> None:
        """Write down how far it has come, or what refuses it."""
        now = time.time_ns()
        note = MirrorNote(
            place=self.place, size=self.copy.size, looked_ns=now, refused=refused and refused[:2000]
        )
        last = self.written
        since = now if last is None else now - last.looked_ns
        if last and since < _NOTE_NS and (last.size, last.refused) == (note.size, note.refused):
            return
        try:
            write_note(self.home, note)
        except OSError as error:
            if last is None or last.refused != note.refused:
                typer.echo(f"{error}: the coordinator is not told of this mirror", err=True)
        self.written = note


_NOTE_NS = 60 * 10**9


def _follow(
    book: _Notebook, ledger: LedgerReader, blobs: Blobs, seconds: float, stopped: threading.Event
) -> None:
    """Mirror until it is stopped; where the other side refuses, wait and try again."""
    backoff = Backoff(shortest=seconds, longest=max(seconds, 60.0))
    while not stopped.is_set():
        try:
            for step in book.copy.steps(ledger, blobs):
                book.tell(step)
                book.note()
                if stopped.is_set():
                    return
        except BlobError as error:
            typer.echo(f"{error}; trying again", err=True)
            book.note(str(error))
            stopped.wait(backoff.next())
        except (AuditError, LedgerError) as error:
            book.note(str(error))
            raise
        else:
            book.note()
            backoff.reset()
            stopped.wait(seconds)


def restore(
    url: Url,
    home: Home = HOME,
    key: Annotated[
        str | None,
        typer.Option(
            help="The coordinator's public key; else that of the home's keys/coordinator.pub."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the ledger of an empty home from a mirror, after checking all of it."""
    with _told():
        known = _known(home, key)
        bar = Progress(console=console_for_people(stderr=True), transient=True)
        with bar:
            task = bar.add_task("restoring", total=None)
            report = restore_ledger(
                url,
                home,
                known,
                store=(load(home).blobs if (home / FILE_NAME).is_file() else None),
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
    done(str(report), as_json=as_json, wrote=[ledger_path(home)])


def _known(home: Path, key: str | None) -> LedgerOwner:
    """Return whose ledger it must be: by the key that was given, or by that of the home."""
    given = keys.public_key(home) if key is None else read_verify_key(key)
    if given is None:
        stop(
            "--key: is missing, and the home has no keys/coordinator.pub; give the coordinator's "
            "public key, or put its key back from your backup",
            ExitCode.USAGE,
        )
    fleet = _fleet_of(given)
    if (home / FILE_NAME).is_file() and load(home).fleet != fleet:
        stop(
            f"fleet: {load(home).fleet!r} in {home / FILE_NAME}, and the key is of {fleet!r}; "
            "restore into the home of that fleet",
            ExitCode.USAGE,
        )
    return LedgerOwner(fleet, given, Prunings())


def _fleet_of(key: VerifyKey) -> FleetId:
    fleet, _, whose = key.name.partition("/")
    if whose != "coordinator" or not FleetId.obeys_rule(fleet):
        stop(f"--key: is of {key.name!r}; give that of FLEET/coordinator", ExitCode.USAGE)
    return FleetId(fleet)


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors into exit codes."""
    try:
        yield
    except SettingsError as error:
        stop(str(error), ExitCode.USAGE)
    except (LedgerError, BlobError, AuditError, KeyFileError, SchemaError) as error:
        stop(str(error), ExitCode.FAILED)

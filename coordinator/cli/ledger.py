"""`fleetledger ledger`: reading, checking and proving, also while the coordinator runs."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from fleetledger.coordinator import completion, errors
from fleetledger.coordinator.cli import copies, history, inspection
from fleetledger.coordinator.cli.common import Tagged, done
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.ledger import audit as auditing
from fleetledger.coordinator.ledger import entry_proofs, keys, tiles
from fleetledger.coordinator.ledger.audit import Audited
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.entry_proofs import Proven
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import VerificationReport
from fleetledger.coordinator.paths import FILE_NAME, ledger_path
from fleetledger.coordinator.program.home_verification import VerifiedHome, verify_home
from fleetledger.coordinator.reports import explorer, reports
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import AsJson, stop
from fleetledger.runtime.command_report import OutputForm, as_tsv, output_form
from fleetledger.runtime.command_report import as_json as as_json_text
from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.keys import VerifyKey, read_verify_key
from fleetledger.schemas.values import FleetId

app = typer.Typer(help="Read, check and replay the ledger.", no_args_is_help=True)

app.command()(inspection.inspect)
app.command()(history.replay)
app.command()(history.retract)
app.command()(history.count_in)
app.command()(copies.mirror)
app.command()(copies.restore)

_POLL_SECONDS = 0.5


@app.command()
def tail(
    home: Home = HOME,
    number: Annotated[int, typer.Option("-n", min=0, help="Entries to print.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new entries.")] = False,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Only what this device made; may be given again.",
            autocompletion=completion.devices,
        ),
    ] = None,
    tag: Tagged = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest entries; with --json and --follow a line of JSON for each."""
    form = output_form(as_json=as_json)
    choice = DeviceChoice.read(device, tag)
    with _opened(home) as ledger:
        whose = None if choice.is_open else chosen_in(ledger, choice)
        size = ledger.size
        newest = ledger.newest(number, before=size, devices=whose)
        _print_entries(_told_of(None, reversed(newest)), form, follow=follow)
        while follow:
            time.sleep(_POLL_SECONDS)
            start, size = size, ledger.size
            new = _told_of(whose, ledger.entries(start, size))
            if new.entries:
                _print_entries(new, form, follow=True, head=False)


@app.command()
def show(
    index: Annotated[int, typer.Argument(min=0, help="Index of the entry.")],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Explain one entry and print all of it."""
    with _opened(home) as ledger:
        if index >= ledger.size:
            stop(
                f"index: {index} is not in the ledger; it holds "
                f"{count_of(ledger.size, 'entry', 'entries')}",
                ExitCode.USAGE,
            )
        entry = ledger.entry(index)
    command_output.show(reports.EntryReport.whole(entry), as_json=as_json)


@app.command()
def verify(
    home: Home = HOME,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Processes; as many as there are cores if left out."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where one was interrupted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check all entries, checkpoints, blobs and kept states; name the first that is wrong."""
    with _opened(home) as ledger:
        report = _verified(home, ledger.size, jobs or os.cpu_count() or 1, resume=resume)
    command_output.show(reports.VerifyReport.of(report), as_json=as_json)
    if not report.ok:
        stop(f"does not fit: {report}", ExitCode.FAILED)


@app.command()
def prove(
    index: Annotated[int, typer.Argument(min=0, help="Index of the entry.")],
    home: Home = HOME,
) -> None:
    """Print the proof that an entry is in the ledger, as JSON that `audit` checks anywhere."""
    with _opened(home) as ledger:
        proof = entry_proofs.prove(ledger, index)
    typer.echo(proof.model_dump_json(indent=2))


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Write the ledger as files that need no program: entries, tiles, the signed checkpoint."""
    with _opened(home) as ledger, ledger.snapshot():
        size = tiles.export(ledger, folder)
    said = (
        f"{count_of(size, 'entry', 'entries')} in {folder}; who audits them needs the fleet's name "
        "and this key:",
        str(keys.public_key(home)),
    )
    done(*said, as_json=as_json, wrote=[folder])


@app.command()
def explore(
    home: Home = HOME,
    out: Annotated[
        Path | None, typer.Option(help="File to write; `explore.db` in the home if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the ledger and what it comes to as a file for SQLite explorers."""
    _existing(home)
    written = out or home / explorer.FILE_NAME
    try:
        explorer.write_explored(home, time.time_ns(), written)
    except errors.LedgerError as error:
        stop(str(error), ExitCode.FAILED)
    except OSError as error:
        stop(f"--out: {error}", ExitCode.USAGE)
    done(*explorer.commands(written), as_json=as_json, wrote=[written])


@app.command()
def audit(
    exported: Annotated[
        str, typer.Argument(help="Folder of `export` or `mirror`, its URL, or file of `prove`.")
    ],
    fleet: Annotated[str, typer.Option(help="Name of the fleet.")],
    key: Annotated[str, typer.Option(help="The coordinator's public key, as `export` prints it.")],
    as_json: AsJson = False,
) -> None:
    """Check an export, a mirror or a proof with nothing but the coordinator's public key."""
    try:
        report = _audited(exported, FleetId(fleet), read_verify_key(key))
    except (errors.AuditError, SchemaError) as error:
        stop(f"does not hold: {error}", ExitCode.FAILED)
    command_output.show(report, as_json=as_json)


def _audited(exported: str, fleet: FleetId, key: VerifyKey) -> reports.AuditReport:
    found: Audited | Proven
    if "://" in exported or Path(exported).is_dir():
        found = audited = auditing.audit(exported, fleet, (key,))
        kinds, entry = audited.kinds, None
    else:
        found = proven = entry_proofs.check(entry_proofs.read(Path(exported)), fleet, (key,))
        kinds, entry = {}, reports.ShownEntry.of(proven.entry)
    signed = found.checkpoint
    return reports.AuditReport(
        fleet=str(signed.fleet),
        size=signed.size,
        root=str(signed.root),
        kinds=kinds,
        entry=entry,
        sentence=str(found),
    )


def _verified(home: Path, size: int, jobs: int, *, resume: bool) -> VerificationReport:
    settings = load(home) if (home / FILE_NAME).is_file() else None
    fleet = None if settings is None else settings.fleet
    what = VerifiedHome(home, history.blobs_location(home), fleet)
    with Progress(console=console_for_people(stderr=True), transient=True) as bar:
        task = bar.add_task("entries", total=size)

        def walked(done: int) -> None:
            bar.update(task, completed=done, description="state" if done >= size else "entries")

        try:
            return verify_home(what, jobs=jobs, resume=resume, progress=walked)
        except KeyboardInterrupt:
            typer.echo("interrupted; `ledger verify --resume` goes on from here", err=True)
            raise


@contextmanager
def _opened(home: Path) -> Iterator[LedgerReader]:
    """Open the ledger of `home`; turn errors and Ctrl-C into exit codes."""
    path = _existing(home)
    try:
        with LedgerReader.open_read_only(path) as ledger:
            yield ledger
    except (SettingsError, errors.CommandError) as error:
        stop(str(error), ExitCode.USAGE)
    except (
        errors.LedgerError,
        errors.BlobError,
        errors.AuditError,
        errors.KeyFileError,
        ProofError,
    ) as error:
        stop(str(error), ExitCode.FAILED)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _existing(home: Path) -> Path:
    path = ledger_path(home)
    if not path.is_file():
        stop(f"--home: no ledger at {path}; give the coordinator's home folder", ExitCode.USAGE)
    return path


def _told_of(whose: Collection[str] | None, entries: Iterable[Entry]) -> reports.EntriesReport:
    kept = (entry for entry in entries if whose is None or entry.device in whose)
    return reports.EntriesReport(entries=tuple(map(reports.ShownEntry.of, kept)))


def _print_entries(
    report: reports.EntriesReport, form: OutputForm, *, follow: bool, head: bool = True
) -> None:
    if form == "table":
        command_output.draw(report)
    elif form == "tsv":
        typer.echo(as_tsv(report, head=head), nl=False)
    elif follow:
        for item in report.entries:
            typer.echo(item.model_dump_json())
    else:
        typer.echo(as_json_text(report), nl=False)

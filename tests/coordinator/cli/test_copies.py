"""`ledger mirror` and `ledger restore` as an operator types them, also beside a running writer."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import note_signer, public_key
from fleetledger.coordinator.ledger.mirror_notes import (
    SILENT_SECONDS,
    MirrorNote,
    mirror_problems,
    place_of,
)
from fleetledger.coordinator.ledger.mirror_notes import write_note as write_mirror_note
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.schemas.values import FleetId

FLEET = FleetId("orchard")
PATIENCE = 60.0


@pytest.fixture
def new_home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    write_new(home, CoordinatorSettings(fleet=FLEET))
    return home


@pytest.fixture
def home(new_home: Path) -> Path:
    append(new_home, 3)
    return new_home


def append(home: Path, count: int) -> None:
    with Ledger.open(ledger_path(home), sign_note=note_signer(home, FLEET)) as ledger:
        ledger.append([EntryDraft("pear.seen", "operator", {"n": n}) for n in range(count)])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def told_of(home: Path, after_seconds: float = 0.0) -> list[str]:
    """Return what a coordinator of 1,000 entries says of the mirrors beside it."""
    now = time.time_ns() + int(after_seconds * 1e9)
    return [problem.text for problem in mirror_problems(home, 1000, now)]


def mirrored_entries(place: Path) -> int:
    file = place / "checkpoint"
    return int(file.read_text(encoding="utf-8").split("\n")[1]) if file.exists() else 0


def test_a_ledger_is_mirrored_and_restored_with_the_public_key(home: Path, tmp_path: Path) -> None:
    place, new = tmp_path / "mirror", tmp_path / "new"
    done = run("mirror", place, "--home", home)
    assert done.exit_code == 0, done.output
    assert "3 entries are mirrored, 3 of them and 0 blobs new" in done.stdout
    assert "has all that is signed" in run("mirror", place, "--home", home, "--once").stdout
    back = run("restore", f"file://{place}", "--home", new, "--key", public_key(home))
    assert back.exit_code == 0, back.output
    assert "3 entries of orchard and 0 blobs fit what was signed" in back.stdout
    with ledger_of(home) as ledger, ledger_of(new) as copy:
        assert copy.root == ledger.root
    for mirror in (place, f"file://{place}"):
        assert run("audit", mirror, "--fleet", FLEET, "--key", public_key(home)).exit_code == 0


def test_a_home_with_its_key_and_settings_knows_whose_ledger_it_takes(
    home: Path, tmp_path: Path
) -> None:
    place, new = tmp_path / "mirror", tmp_path / "new"
    run("mirror", place, "--home", home)
    assert run("restore", place, "--home", new).exit_code == 2
    assert "keys/coordinator.pub" in run("restore", place, "--home", new).output
    (new / "keys").mkdir(parents=True)
    (new / "keys" / "coordinator.pub").write_text(f"{public_key(home)}\n", encoding="ascii")
    write_new(new, CoordinatorSettings(fleet=FleetId("vineyard")))
    other = run("restore", place, "--home", new)
    assert (other.exit_code, "the key is of 'orchard'" in other.output) == (2, True)
    (new / "coordinator.toml").unlink()
    assert run("restore", place, "--home", new).exit_code == 0
    again = run("restore", place, "--home", new)
    assert (again.exit_code, "is there already" in again.output) == (1, True)


def test_what_cannot_be_mirrored_says_why(home: Path, tmp_path: Path) -> None:
    nothing = run("mirror", tmp_path / "mirror", "--home", tmp_path / "nothing")
    assert (nothing.exit_code, "no ledger at" in nothing.output) == (2, True)
    lacking = run("mirror", "nonsense://bucket", "--home", home)
    assert (lacking.exit_code, "cannot be opened" in lacking.output) == (1, True)
    run("mirror", tmp_path / "mirror", "--home", home)
    text = (tmp_path / "mirror" / "checkpoint").read_text(encoding="utf-8")
    (tmp_path / "mirror" / "checkpoint").write_text(text.replace("\n3\n", "\n2\n"), "utf-8")
    changed = run("mirror", tmp_path / "mirror", "--home", home)
    assert (changed.exit_code, "mirror to another place" in changed.output) == (1, True)


def test_a_mirror_follows_until_it_is_stopped_from_before_the_first_start_past_a_place_that_refuses(
    new_home: Path, tmp_path: Path
) -> None:
    home = new_home
    place = tmp_path / "mirror"
    place.write_bytes(b"in the way")
    command = [sys.executable, "-m", "fleetledger", "ledger", "mirror", str(place)]
    options = ["--home", str(home), "--follow", "--seconds", "0.1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, *options], **pipes, text=True) as process:
        try:
            assert process.stderr is not None
            assert "waiting for the coordinator" in process.stderr.readline()
            append(home, 3)
            assert "trying again" in process.stderr.readline()
            until(lambda: bool(told_of(home)))
            assert f"the mirror at {place} has 0 of 1,000 entries: " in told_of(home)[0]
            place.unlink()
            until(lambda: mirrored_entries(place) == 3)
            append(home, 300)
            until(lambda: mirrored_entries(place) == 303)
            until(lambda: not told_of(home))
            process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "303 entries are mirrored, 300 of them" in told
    (silent,) = told_of(home, after_seconds=SILENT_SECONDS + PATIENCE)
    assert "has 303 of 1,000 entries; nothing has mirrored there since" in silent
    assert run("audit", place, "--fleet", FLEET, "--key", public_key(home)).exit_code == 0


def test_a_note_that_cannot_be_read_is_named_and_no_password_is_told(tmp_path: Path) -> None:
    assert place_of("ftp://somebody:secret@host/fleet") == "ftp://host/fleet"
    write_mirror_note(tmp_path, MirrorNote(place="ftp://host/fleet", looked_ns=time.time_ns()))
    assert told_of(tmp_path) == []
    (note,) = (tmp_path / "mirrors").iterdir()
    note.write_bytes(b"{")
    assert told_of(tmp_path) == [
        f"{note}: is no note of a mirror; delete it, and the mirror writes it anew"
    ]

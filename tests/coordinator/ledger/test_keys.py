"""The coordinator's key: made once, read again, and readable for its owner alone."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import (
    coordinator_key,
    key_folder,
    note_reader,
    note_signer,
    public_key,
)
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import VerificationReport, verify
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.values import FleetId

FLEET = FleetId("orchard")


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    assert public_key(tmp_path) is None
    made = coordinator_key(tmp_path, FLEET)
    assert coordinator_key(tmp_path, FLEET).verify_key == made.verify_key == public_key(tmp_path)
    assert made.name == "orchard/coordinator"


def test_only_its_owner_may_read_the_private_key(tmp_path: Path) -> None:
    coordinator_key(tmp_path, FLEET)
    file = key_folder(tmp_path) / "coordinator.pem"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(file.parent.glob("*.new"))


def test_a_key_that_was_cut_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    key_folder(tmp_path).mkdir()
    (key_folder(tmp_path) / "coordinator.new").write_bytes(b"-----BEGIN")
    assert coordinator_key(tmp_path, FLEET).verify_key == public_key(tmp_path)


@pytest.mark.parametrize("name", ["coordinator.pem", "coordinator.pub"])
def test_a_damaged_key_is_named_and_never_replaced(tmp_path: Path, name: str) -> None:
    coordinator_key(tmp_path, FLEET)
    file = key_folder(tmp_path) / name
    file.write_bytes(b"nonsense")
    with pytest.raises(KeyFileError, match=name):
        coordinator_key(tmp_path, FLEET) if name.endswith("pem") else public_key(tmp_path)
    assert file.read_bytes() == b"nonsense"


def test_every_checkpoint_that_is_written_is_signed(tmp_path: Path) -> None:
    engine = LedgerEngine.open(tmp_path, Rules(), sign_note=note_signer(tmp_path, FLEET))
    engine.ledger.append([EntryDraft("command.done", "operator", {"ticket": "1", "text": ""})])
    engine.ledger.append([EntryDraft("command.done", "operator", {"ticket": "1", "text": ""})])
    engine.close()
    key = public_key(tmp_path)
    assert key is not None
    with LedgerReader.open_read_only(ledger_path(tmp_path)) as ledger:
        for stored in ledger.checkpoints():
            assert stored.note is not None
            read = Checkpoint.read(stored.note, FLEET, [key])
            assert (read.size, read.root) == (stored.size, stored.root)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("UPDATE checkpoint SET note = replace(note, '1', '2') WHERE size = 1", "size 1"),
        ("UPDATE checkpoint SET note = (SELECT note FROM checkpoint WHERE size = 2)", "size 1"),
        ("UPDATE checkpoint SET note = '' WHERE size = 2", "size 2"),
    ],
    ids=["altered", "of another size", "emptied"],
)
def test_verify_names_a_note_that_does_not_belong_to_its_checkpoint(
    tmp_path: Path, sql: str, named: str
) -> None:
    engine = LedgerEngine.open(tmp_path, Rules(), sign_note=note_signer(tmp_path, FLEET))
    for _ in range(2):
        engine.ledger.append([EntryDraft("command.done", "operator", {"ticket": "1", "text": ""})])
    engine.close()
    assert _verified(tmp_path).ok
    connection = sqlite3.connect(ledger_path(tmp_path))
    connection.execute("DROP TRIGGER checkpoint_update_guard")
    connection.execute(sql)
    connection.commit()
    connection.close()
    assert f"checkpoint of {named}" in str(_verified(tmp_path))


def _verified(home: Path) -> VerificationReport:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        blobs = Blobs(ledger, BlobStore(home / "blobs"))
        return verify(ledger, blobs, read_note=note_reader(home, FLEET))

"""A snapshot is taken where it fits the ledger and the program; why it does not is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.snapshots import SnapshotHead, StateSnapshots
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.support import draft, fill, tampering

PROGRAM = Digest.of(b"this program")
KEY = SigningKey.fresh(KeyName("own/coordinator"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path)


@pytest.fixture
def ledger(path: Path) -> Iterator[LedgerReader]:
    with LedgerReader.open_read_only(path) as reader:
        yield reader


@pytest.fixture
def snapshots(path: Path) -> StateSnapshots:
    return StateSnapshots(path, PROGRAM, KEY)


def test_what_is_written_is_read(ledger: LedgerReader, snapshots: StateSnapshots) -> None:
    written = snapshots.write({"all": b"a state"}, ledger, 8)
    assert snapshots.files() == [written]
    stored = snapshots.read(written, ledger)
    assert (stored.part("all"), stored.head.size, stored.head.root) == (
        b"a state",
        8,
        ledger.root_at(8),
    )


def test_the_newest_two_stay_and_nothing_of_writers_that_were_killed(
    ledger: LedgerReader, snapshots: StateSnapshots
) -> None:
    snapshots.write({"all": b"a state"}, ledger, 4)
    (snapshots.folder / "9.aa.new").write_bytes(b"half")
    (snapshots.folder / "notes.state").write_bytes(b"somebody's")
    for size in (10, 11, 12):
        snapshots.write({"all": b"a state"}, ledger, size)
    assert [path.name for path in snapshots.files()] == ["12.state", "11.state"]
    assert not list(snapshots.folder.glob("*.new"))
    assert (snapshots.folder / "notes.state").exists()


def test_what_another_key_signed_or_none_is_not_taken(
    path: Path, ledger: LedgerReader, snapshots: StateSnapshots
) -> None:
    """Root, program and digest are those of a state that somebody else made up."""
    stranger = StateSnapshots(path, PROGRAM, SigningKey.fresh(KeyName("own/coordinator")))
    written = stranger.write({"all": b"a state with another model"}, ledger, 8)
    assert "signature: is not that of" in refused(written, ledger, snapshots)
    head, data = written.read_bytes().split(b"\n", 1)
    bare = SnapshotHead.model_validate_json(head).model_copy(update={"signature": ""})
    written.write_bytes(bare.model_dump_json().encode() + b"\n" + data)
    assert "signature: is not that of" in refused(written, ledger, snapshots)


def test_without_a_key_nothing_is_kept_or_taken(
    path: Path, ledger: LedgerReader, snapshots: StateSnapshots
) -> None:
    written = snapshots.write({"all": b"a state"}, ledger, 8)
    keyless = StateSnapshots(path, PROGRAM, None)
    assert "no key of the coordinator" in refused(written, ledger, keyless)
    with pytest.raises(SnapshotError, match="no key of the coordinator"):
        keyless.write({"all": b"a state"}, ledger, 9)


def refused(path: Path, ledger: LedgerReader, snapshots: StateSnapshots) -> str:
    with pytest.raises(SnapshotError) as found:
        snapshots.read(path, ledger).parts()
    return str(found.value)


def test_one_of_another_program_is_refused(
    path: Path, ledger: LedgerReader, snapshots: StateSnapshots
) -> None:
    written = snapshots.write({"all": b"a state"}, ledger, 8)
    other = StateSnapshots(path, Digest.of(b"its successor"), KEY)
    assert "another version of this program" in refused(written, ledger, other)


def test_one_of_more_entries_than_there_are_is_refused(
    tmp_path: Path, path: Path, snapshots: StateSnapshots
) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([draft(12)])
        written = snapshots.write({"all": b"a state"}, ledger, 13)
    restored = fill(tmp_path / "backup")
    with LedgerReader.open_read_only(restored) as ledger:
        assert refused(written, ledger, snapshots) == "of 13 entries; the ledger has 12"


def test_one_of_another_history_is_refused(
    path: Path, tmp_path: Path, snapshots: StateSnapshots
) -> None:
    with Ledger.open(tmp_path / "other" / "ledger.db") as ledger:
        ledger.append([draft(number) for number in range(20)])
        written = StateSnapshots(ledger.path, PROGRAM, KEY).write({"all": b"a state"}, ledger, 12)
    with LedgerReader.open_read_only(path) as ledger:
        assert "another history" in refused(written, ledger, snapshots)


def test_one_where_the_tree_lacks_nodes_is_refused(path: Path, snapshots: StateSnapshots) -> None:
    with Ledger.open(path) as ledger:
        ledger.append([draft(number) for number in range(12, 40)])
        written = snapshots.write({"all": b"a state"}, ledger, 33)
    with tampering(path) as connection:
        connection.execute("DELETE FROM node")
    with LedgerReader.open_read_only(path) as ledger:
        assert "no root of 33" in refused(written, ledger, snapshots)


def test_a_damaged_byte_is_noticed(ledger: LedgerReader, snapshots: StateSnapshots) -> None:
    written = snapshots.write({"all": b"a state of some length"}, ledger, 8)
    whole = written.read_bytes()
    for place in range(len(whole)):
        written.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        refused(written, ledger, snapshots)
    written.write_bytes(whole + b"more")
    assert "bytes instead of" in refused(written, ledger, snapshots)
    for end in range(len(whole)):
        written.write_bytes(whole[:end])
        refused(written, ledger, snapshots)


def test_a_part_is_read_whatever_became_of_the_others(
    ledger: LedgerReader, snapshots: StateSnapshots
) -> None:
    written = snapshots.write({"one": b"a state", "two": b"", "three": b"a fleet"}, ledger, 8)
    written.write_bytes(written.read_bytes().replace(b"a state", b"a stale"))
    stored = snapshots.read(written, ledger)
    assert (stored.part("two"), stored.part("three")) == (b"", b"a fleet")
    with pytest.raises(SnapshotError, match="one: its bytes have another digest"):
        stored.part("one")
    with pytest.raises(SnapshotError, match="four: no such part"):
        stored.part("four")
    written.unlink()
    with pytest.raises(SnapshotError, match="three: cannot be read"):
        stored.part("three")


def test_what_is_no_snapshot_is_refused(ledger: LedgerReader, snapshots: StateSnapshots) -> None:
    snapshots.folder.mkdir()
    strange = snapshots.folder / "5.state"
    for content in (b"", b"\n", b"{}\n", b"x" * 10_000):
        strange.write_bytes(content)
        assert "is no head" in refused(strange, ledger, snapshots)
    strange.unlink()
    strange.mkdir()
    assert "cannot be read" in refused(strange, ledger, snapshots)


def test_a_folder_that_cannot_be_made_is_told_with_what_follows(
    path: Path, ledger: LedgerReader, snapshots: StateSnapshots
) -> None:
    snapshots.folder.write_bytes(b"in the way")
    with pytest.raises(SnapshotError, match=r"cannot be written: .*read from the entries"):
        snapshots.write({"all": b"a state"}, ledger, 8)

"""However a ledger is cut into ranges, the same is said of it, and the same is named first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger import ranges as ranges_module
from fleetledger.coordinator.ledger import verify as verify_module
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.ranges import ranges
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.verify import VerificationReport, verify
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.values import Digest, FleetId
from tests.coordinator.ledger.support import draft, open_store, tampering

SIZES = [0, 1, 15, 16, 17, 100, 256, 272]
Cut = Callable[[int], None]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    """Let a range be of 2^level entries."""

    def at(level: int) -> None:
        for module in (ranges_module, verify_module):
            monkeypatch.setattr(module, "RANGE_LEVEL", level)
            monkeypatch.setattr(module, "RANGE", 1 << level)

    return at


def fill(folder: Path, size: int) -> Path:
    """Write a ledger with groups of several sizes; every seventh entry names a blob."""
    path = folder / "ledger.db"
    with Ledger.open(path, clock=lambda: 1_000, sign_note=note_of) as ledger:
        while ledger.size < size:
            start = ledger.size
            count = min(1 + start % 6, size - start)
            contents = {Digest.of(b"%d" % n): b"%d" % n for n in range(start, start + count, 7)}
            entries = [draft(start + n, blobs=tuple(contents)[n : n + 1]) for n in range(count)]
            ledger.append(entries, contents)
    return path


def note_of(size: int, root: Digest) -> str:
    return f"{size} {root}"


def read_note(note: str) -> Checkpoint:
    size, root = note.split(" ")
    if not size.isdecimal():
        raise SignatureError(f"note: {note} is not signed")
    return Checkpoint(FleetId("orchard"), int(size), Digest(root))


def verified(path: Path) -> VerificationReport:
    with LedgerReader.open_read_only(path) as reader:
        return verify(reader, Blobs(reader, open_store(path.parent)), None, read_note)


@pytest.mark.parametrize("size", SIZES)
def test_a_whole_ledger_fits_however_it_is_cut(tmp_path: Path, cut: Cut, size: int) -> None:
    path = fill(tmp_path, size)
    with LedgerReader.open_read_only(path) as reader:
        root = reader.root
    for level in (4, 8, 12):
        cut(level)
        report = verified(path)
        assert (report.ok, report.entries, report.root) == (True, size, root), str(report)


def test_ranges_are_joined_without_a_gap() -> None:
    for size in (1, 4095, 4096, 4097, 10_000):
        found = list(ranges(size))
        assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
        assert found[-1][1] == size
    assert list(ranges(0)) == [(0, 0)]


TAMPERED = [
    "UPDATE entry SET actor = 'x' WHERE idx IN (40, 41)",
    "UPDATE entry SET body = replace(body, ':', ': ') WHERE idx = 47",
    "DELETE FROM entry WHERE idx = 48",
    "DELETE FROM entry WHERE idx BETWEEN 30 AND 70",
    "DELETE FROM entry WHERE idx >= 90",
    "DELETE FROM entry WHERE idx >= 80",
    "INSERT INTO entry SELECT -1, time_ns, kind, actor, device, body, blobs, leaf FROM entry"
    " WHERE idx = 3",
    "UPDATE checkpoint SET root = zeroblob(32) WHERE size > 50",
    "UPDATE checkpoint SET note = replace(note, ' ', 'x ') WHERE size > 33",
    "UPDATE checkpoint SET note = '7 ' || lower(hex(root)) WHERE size > 64",
    "DELETE FROM checkpoint WHERE size > 95",
    "INSERT INTO checkpoint VALUES (0, zeroblob(32), 1, NULL)",
    "INSERT INTO checkpoint VALUES (500, zeroblob(32), 1, NULL)",
    "DELETE FROM node WHERE level = 4 AND position = 3",
    "UPDATE node SET hash = zeroblob(32) WHERE level = 4 AND position > 1",
    "INSERT INTO node VALUES (4, 6, zeroblob(32))",
    "INSERT INTO node VALUES (8, 0, zeroblob(32))",
    "DELETE FROM blob WHERE rowid > 5",
    "UPDATE blob SET content = x'00' WHERE rowid IN (3, 4)",
    "UPDATE blob SET content = NULL, state = 'pruned' WHERE rowid IN (3, 4)",
]


@pytest.mark.parametrize("sql", TAMPERED)
def test_what_is_named_first_is_the_same_however_it_is_cut(
    tmp_path: Path, cut: Cut, whole: Path, sql: str
) -> None:
    shutil.copy(whole, tmp_path / "ledger.db")
    with tampering(tmp_path / "ledger.db") as connection:
        connection.execute(sql)
    reports = []
    for level in (4, 12):
        cut(level)
        reports.append(verified(tmp_path / "ledger.db"))
    small, large = reports
    assert (small.mismatch, small.entries, small.root) == (
        large.mismatch,
        large.entries,
        large.root,
    )
    assert (small.checkpoints, small.pruned) == (large.checkpoints, large.pruned)
    assert (small.mismatch is None) == ("'pruned'" in sql)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("whole"), 100)


def test_a_wrong_node_above_ranges_is_named(tmp_path: Path, cut: Cut) -> None:
    path = fill(tmp_path, 256)
    cut(4)
    with tampering(path) as connection:
        connection.execute("UPDATE node SET hash = zeroblob(32) WHERE level = 8")
    assert str(verified(path)).startswith("node 0 of level 8 of the tree: hash should be ")

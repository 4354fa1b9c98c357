"""Reading by index, range and kind, also while another process writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import ClassVar

import pytest

from fleetledger.coordinator.errors import LedgerCorruptError, LedgerError
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.values import DeviceId
from tests.coordinator.ledger.support import draft, fill, tampering


def test_ranges_and_kinds_select_entries(tmp_path: Path) -> None:
    with LedgerReader.open_read_only(fill(tmp_path)) as reader:
        assert [entry.index for entry in reader.entries(3, 6)] == [3, 4, 5]
        assert [entry.index for entry in reader.entries(10)] == [10, 11]
        assert [entry.index for entry in reader.find(_Withdrawn)] == [10]
        assert list(reader.entries(12)) == []
        assert reader.entry(5).body["number"] == 5
        with pytest.raises(LedgerError, match="index: 12 is not in the ledger; it holds 0 to 11"):
            reader.entry(12)


def test_more_entries_than_a_page_come_in_order(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for _ in range(3):
            ledger.append([draft(n) for n in range(500)])
        assert [entry.index for entry in ledger.entries()] == list(range(1500))


def test_a_reader_sees_what_the_writer_commits_after_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.append([draft(0)])
        with LedgerReader.open_read_only(path) as reader:
            assert reader.size == 1
            ledger.append([draft(1)])
            assert (reader.size, reader.root) == (2, ledger.root)
            with reader.snapshot():
                assert reader.size == 2
                ledger.append([draft(2)])
                assert reader.size == 2
            assert reader.size == 3


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    with (
        LedgerReader.open_read_only(fill(tmp_path)) as reader,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reader.db.execute("DELETE FROM blob")


def test_a_missing_ledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"ledger\.db: no ledger there; start the coordinator"):
        LedgerReader.open_read_only(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_a_file_that_is_no_ledger_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"ledger\.db: "):
        LedgerReader.open_read_only(path)


def test_a_changed_entry_is_never_handed_out(tmp_path: Path) -> None:
    path = fill(tmp_path)
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET actor = 'nobody' WHERE idx = 6")
    with LedgerReader.open_read_only(path) as reader:
        entries = reader.entries()
        assert [next(entries).index for _ in range(6)] == list(range(6))
        with pytest.raises(LedgerCorruptError, match=r"entry 6 \(contribution.accepted\): leaf"):
            next(entries)


def test_a_ledger_whose_writer_died_is_read_from_its_log(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path)
    ledger.append([draft(0)])
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    ledger.close()
    with LedgerReader.open_read_only(copy / "ledger.db") as reader:
        assert reader.size == 1


def test_entries_that_somebody_else_checks_are_the_same(tmp_path: Path) -> None:
    with LedgerReader.open_read_only(fill(tmp_path)) as reader:
        assert list(reader.checked_entries()) == list(reader.entries())
        assert list(reader.checked_entries(3, 5)) == list(reader.entries(3, 5))


class _Accepted:
    kind: ClassVar[str] = "contribution.accepted"


class _Withdrawn:
    kind: ClassVar[str] = "contribution.withdrawn"


class _Evaluated:
    kind: ClassVar[str] = "device.evaluated"


def test_entries_are_found_by_kind_device_and_body(tmp_path: Path) -> None:
    def found(*kinds: type[_Accepted | _Withdrawn], **asked: object) -> list[int]:
        return [entry.index for entry in reader.find(*kinds, **asked)]  # type: ignore[arg-type]

    with LedgerReader.open_read_only(fill(tmp_path)) as reader:
        assert list(reader.at([7, 2])) == [reader.entry(7), reader.entry(2)]
        assert found(_Withdrawn) == [10]
        assert found(_Accepted, _Withdrawn, start=9, stop=11) == [9, 10]
        assert found(_Accepted, device="device-1") == [1, 4, 7]
        assert found(_Accepted, last=True) == [7, 9, 11]
        assert found(_Accepted, last=True, stop=9) == [6, 7, 8]
        assert found(_Accepted, where={"number": 5, "samples.hund": 5}) == [5]
        assert found(_Withdrawn, where={"number": 5}) == []


def test_more_entries_than_a_page_are_found_in_order(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.append([draft(n) for n in range(1100)])
        assert [entry.index for entry in ledger.find(_Accepted)] == list(range(1100))


def test_the_newest_entries_are_found_by_what_they_are_about(tmp_path: Path) -> None:
    def newest(limit: int = 3, **asked: object) -> list[int]:
        return [entry.index for entry in ledger.newest(limit, **asked)]  # type: ignore[arg-type]

    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.append([draft(n) for n in range(6)])
        ledger.append([EntryDraft("device.retired", "operator", {"devices": ["device-1"]})])
        assert newest() == [6, 5, 4]
        assert newest(before=3) == [2, 1, 0]
        assert newest(kinds={"device.retired"}) == [6]
        assert newest(devices=["device-1", "device-0"]) == [4, 3, 1]
        assert newest(about="device-1") == [6, 4, 1]
        assert newest(about="device") == []
        assert newest(word="DEVICE-1") == [6]
        assert newest(word="device-1") == [6, 4, 1]


def test_what_devices_measured_of_a_version_is_found_by_an_index(tmp_path: Path) -> None:
    body, asked = {"evaluation": {"version": 3}}, {"evaluation.version": 3}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.append([EntryDraft(_Evaluated.kind, "a", body, device=DeviceId("a"))])
        told = list[str]()
        ledger.db.set_trace_callback(told.append)
        assert [one.body for one in ledger.find(_Evaluated, last=True, where=asked)] == [body]
        ledger.db.set_trace_callback(None)
        plan = ledger.db.execute(f"EXPLAIN QUERY PLAN {told[0]}").fetchall()
    assert "entry_of_version" in str(plan)

"""Runs of entries beside the same entries written one by one, which is the slow and obvious way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.coordinator.errors import EntryError, LedgerCorruptError, LedgerWriteError
from fleetledger.coordinator.ledger import runs
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.ledger.support import draft, open_store, tampering

KIND = "contribution.accepted"
TIME_NS = 1_700_000_000_000_000_000


class _Accepted:
    kind = KIND


def answers(count: int, *, first: int = 0, stage: int = 1) -> list[EntryDraft]:
    """Drafts that differ in device, payload, loss and text."""
    found = []
    for number in range(first, first + count):
        device, payload = DeviceId(f"device-{number:04}"), Digest.of(b"%d" % number)
        part = {"key": {"part": 7, "stage": stage}, "payload": payload, "share": "100 %, é"}
        body = {"loss": number / 7, "note": f"{number} \n\u2028é", "part": part, "replaces": None}
        found.append(EntryDraft(KIND, device, body, device, (payload,), TIME_NS))
    return found


def text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def as_run(drafts: Sequence[EntryDraft]) -> EntryRun:
    """The same entries as a run."""
    stage = drafts[0].body["part"]["key"]["stage"]
    pieces = (
        '{"loss":',
        ',"note":',
        f',"part":{{"key":{{"part":7,"stage":{stage}}},"payload":',
        ',"share":"100 %, é"},"replaces":null}',
    )
    columns = (
        [text(one.body["loss"]) for one in drafts],
        [text(one.body["note"]) for one in drafts],
        [text(one.body["part"]["payload"]) for one in drafts],
    )
    devices = tuple(one.device for one in drafts if one.device is not None)
    return EntryRun(KIND, devices, pieces, columns, TIME_NS, blobs=2)


def filled(path: Path, groups: Sequence[Sequence[EntryDraft | EntryRun]], **more: object) -> Ledger:
    ledger = Ledger.open(path, clock=lambda: TIME_NS)
    for group in groups:
        ledger.append(group, **more)  # type: ignore[arg-type]
    return ledger


def both(folder: Path, sizes: Sequence[int]) -> tuple[Ledger, Ledger]:
    """Two ledgers of the same entries: alone, and every second group as a run."""
    groups: list[list[EntryDraft]] = []
    for number, size in enumerate(sizes):
        first = 1000 * number
        some = [draft(n, time_ns=TIME_NS) for n in range(size)]
        groups.append(answers(size, first=first) if number % 2 else some)
    told = [[as_run(group)] if place % 2 else group for place, group in enumerate(groups)]
    return filled(folder / "alone.db", groups), filled(folder / "runs.db", told)


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of some entries take several rows."""
    monkeypatch.setattr(runs, "ROW_ENTRIES", 10)


@given(sizes=st.lists(st.integers(1, 33), min_size=2, max_size=5), data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_run_is_the_same_entries_written_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    alone, other = both(tmp_path_factory.mktemp("runs"), sizes)
    size = alone.size
    with alone, other, LedgerReader.open_read_only(other.path) as read:
        assert (other.size, other.root, read.size) == (size, alone.root, size)
        assert list(read.entries()) == list(alone.entries())
        assert list(read.checked_entries()) == list(alone.checked_entries())
        assert list(read.rows()) == list(alone.rows())
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
        assert list(read.rows(start, stop)) == list(alone.rows(start, stop))
        asked = data.draw(st.lists(st.integers(0, size + 3), max_size=20))
        assert list(read.at(asked)) == list(alone.at(asked))
        assert read.times(asked) == alone.times(asked)
        for place in ("part", "part.key", "part.share.of", "note", "note.of", "nothing"):
            assert read.values(asked, place) == alone.values(asked, place)
        index = data.draw(st.integers(0, size - 1))
        assert read.entry(index) == alone.entry(index)
        assert other.text(index) == read.text(index) == alone.text(index)
        assert read.inclusion_proof(index, size) == alone.inclusion_proof(index, size)
        assert read.consistency_proof(index, size) == alone.consistency_proof(index, size)
        assert read.root_at(index) == alone.root_at(index)
        assert read.wrong_node() is None


def test_the_bytes_of_what_was_just_committed_are_read_from_memory(tmp_path: Path) -> None:
    with filled(tmp_path / "runs.db", [[as_run(answers(20))]]) as ledger:
        expected = [entry.canonical.decode() for entry in ledger.entries()]
        asked: list[str] = []
        ledger.db.set_trace_callback(asked.append)
        assert [ledger.text(index) for index in range(20)] == expected
        assert not asked


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"device": "device-1004"},
        {"device": "device-9"},
        {"device": "device-1", "start": 2},
        {"start": 25, "stop": 31},
        {"last": True},
        {"where": {"part.key.stage": 1}},
        {"where": {"part.key.stage": 2}},
        {"where": {"loss": 1003 / 7}},
        {"where": {"part.key.stage": 1, "loss": 1003 / 7}},
        {"where": {"part.payload": Digest.of(b"1011")}, "device": "device-1011"},
        {"where": {"number": 3}, "last": True},
    ],
)
def test_indices_are_those_of_entries_written_one_by_one(
    tmp_path: Path, asked: dict[str, object]
) -> None:
    alone, other = both(tmp_path, [20, 25, 3, 12])
    with alone, other:
        assert other.indices(_Accepted, **asked) == alone.indices(_Accepted, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"before": 27},
        {"kinds": [KIND]},
        {"kinds": ["model.solved"]},
        {"devices": ["device-1004", "device-1", "device-3001"]},
        {"about": "device-1004"},
        {"about": "device-1004", "devices": ["device-1"]},
        {"word": "1003 "},
        {"word": "NOTE"},
        {"word": "É"},
        {"word": "device-1002"},
    ],
)
def test_the_newest_are_those_of_entries_written_one_by_one(
    tmp_path: Path, asked: dict[str, object]
) -> None:
    alone, other = both(tmp_path, [20, 25, 3, 12])
    with alone, other:
        for limit in (1, 14, 100):
            assert other.newest(limit, **asked) == alone.newest(limit, **asked)  # type: ignore[arg-type]


def test_a_reopened_ledger_goes_on_with_the_same_tree(tmp_path: Path) -> None:
    alone, other = both(tmp_path, [5, 25])
    other.close()
    with alone, Ledger.open(other.path, clock=lambda: TIME_NS) as again:
        for ledger in (alone, again):
            ledger.append(answers(3, first=50))
        assert again.root == alone.root
    with tampering(other.path) as connection:
        connection.execute("DELETE FROM node")
    with Ledger.open(other.path) as again:  # its edge is made of the leaves
        assert again.root == alone.root


def test_blobs_that_were_not_kept_are_noted_in_the_run(tmp_path: Path) -> None:
    drafts = answers(25)
    sizes = {one.blobs[0]: 100 + n for n, one in enumerate(drafts)}
    with filled(tmp_path / "ledger.db", [[as_run(drafts)]], pruned=sizes) as ledger:
        blobs = Blobs(ledger, open_store(tmp_path))
        assert ledger.db.execute("SELECT count(*) FROM blob").fetchone() == (0,)
        assert {digest: ledger.runs.unkept(digest) for digest in sizes} == sizes
        assert ledger.runs.unkept(Digest.of(b"another")) is None
        report = verify(ledger, blobs)
        assert report.ok, report
        assert set(report.pruned) == set(sizes)


def test_blobs_of_which_some_were_kept_are_marked_one_by_one(tmp_path: Path) -> None:
    drafts = answers(5)
    sizes = {one.blobs[0]: 100 for one in drafts[1:]}
    small = {drafts[0].blobs[0]: b"0"}
    with filled(tmp_path / "ledger.db", [[as_run(drafts)]], pruned=sizes, small_blobs=small) as one:
        assert all(one.blob(digest) for digest in sizes)
        assert verify(one, Blobs(one, open_store(tmp_path))).ok


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "model.solved"}, "kind: model.solved"),
        ({"devices": ()}, "devices"),
        ({"devices": ("a",)}, "devices"),
        ({"pieces": ("{}",)}, "pieces: 1 do not enclose 1 column"),
        ({"columns": (["1", "2"],)}, "columns: number 0"),
        ({"columns": (["1 "],)}, "columns: number 0"),
        ({"columns": (["1.50"],)}, "columns: number 0"),
        ({"columns": (["NaN"],)}, "columns: number 0"),
        ({"columns": (['{"b":1,"a":2}'],)}, "columns: number 0"),
        ({"columns": (['"\ud800"'],)}, "columns: number 0"),
        ({"pieces": ('{"a":"', '"}')}, "whole values"),
        ({"pieces": ("{", ":1}"), "columns": (['"a"'],)}, "whole values"),
        ({"pieces": ('{"b":1,"a":', "}")}, "one spelling"),
        ({"pieces": ("[", "]")}, "JSON object"),
        ({"columns": (["[" * 33 + "]" * 33],)}, "brackets"),
        ({"columns": (['"' + "a" * (1 << 18) + '"'],)}, "characters"),
        ({"blobs": 0}, "digests"),
        ({"time_ns": -1}, "time_ns"),
    ],
)
def test_what_could_not_be_written_alone_is_in_no_run(
    changes: dict[str, object], said: str
) -> None:
    given_ = {"kind": KIND, "devices": (DeviceId("a"),), "pieces": ('{"a":', "}"), "time_ns": 1}
    given_ |= {"columns": (["1"],)}
    assert len(EntryRun(**given_)) == 1  # type: ignore[arg-type]
    with pytest.raises(EntryError, match=said):
        EntryRun(**(given_ | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET count = 3",
        "DELETE FROM run",
        "INSERT OR REPLACE INTO run SELECT * FROM run LIMIT 1",
        "INSERT INTO run SELECT first + 1, 10, time_ns, kind, marks, names, texts, digests, leaves"
        " FROM run",
        "INSERT INTO run SELECT 35, 0, time_ns, kind, marks, names, texts, digests, leaves"
        " FROM run LIMIT 1",
        "INSERT INTO entry VALUES (12, 1, 'a', 'a', NULL, '{}', '[]', x'00')",
    ],
)
def test_runs_are_append_only(tmp_path: Path, statement: str) -> None:
    _, other = both(tmp_path, [10, 25])
    with other, pytest.raises(sqlite3.DatabaseError, match="append-only"):
        other.db.execute(statement)


def test_what_cannot_be_committed_leaves_nothing(tmp_path: Path) -> None:
    with filled(tmp_path / "ledger.db", [[draft(0)]]) as ledger:
        root = ledger.root
        ledger.db.execute(
            "CREATE TEMP TRIGGER refuse BEFORE INSERT ON node BEGIN SELECT raise(ABORT, 'no'); END"
        )
        with pytest.raises(LedgerWriteError, match="26 entries not stored"):
            ledger.append([draft(1), as_run(answers(25))])
        ledger.db.execute("DROP TRIGGER refuse")
        assert (ledger.size, ledger.root, len(list(ledger.rows()))) == (1, root, 1)
        small = {Digest.of(b"%d" % n): b"%d" % n for n in range(25)}
        ledger.append([as_run(answers(25)), draft(2)], small)
        report = verify(ledger, Blobs(ledger, open_store(tmp_path)))
        assert (report.mismatch, report.entries) == (None, 27)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_byte_of_a_run_is_found_and_an_entry_of_it_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    drafts = answers(25)
    sizes = {one.blobs[0]: 100 + n for n, one in enumerate(drafts)}
    path = folder / "ledger.db"
    with filled(path, [[draft(n) for n in range(3)]]) as ledger:
        ledger.append([as_run(drafts), draft(3)], pruned=sizes)
        whole = list(ledger.rows())
    column = data.draw(st.sampled_from(runs.RUN_COLUMNS))
    first = data.draw(st.sampled_from([3, 13, 23]))
    with tampering(path) as connection:
        (held,) = connection.execute(f"SELECT {column} FROM run WHERE first = {first}").fetchone()
        if isinstance(held, bytes | str):
            changed = bytearray(held if isinstance(held, bytes) else held.encode())
            changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(
                st.integers(0, 6)
            )
            found = bytes(changed) if isinstance(held, bytes) else changed.decode("latin-1")
        else:
            found = held ^ 1 << data.draw(st.integers(0, 40))
        connection.execute(f"UPDATE run SET {column} = ? WHERE first = {first}", (found,))
    with LedgerReader.open_read_only(path) as ledger:
        report = verify(ledger, Blobs(ledger, open_store(folder)))
        if column in ("names", "texts") and report.mismatch is None:
            # Bits that fill the last byte of what is compressed say nothing.
            assert list(ledger.rows()) == whole
            return
        assert report.mismatch is not None
        assert report.mismatch.index is not None
        least = min(3, found) if column == "first" else 3
        assert least <= report.mismatch.index <= 28
        if column in ("digests", "leaves"):  # of one entry
            with pytest.raises(LedgerCorruptError):
                ledger.entry(report.mismatch.index)

"""Reading the ledger, also while another process writes it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypedDict

from pydantic_core import from_json
from typing_extensions import Self, Unpack

from fleetledger.coordinator.errors import LedgerCorruptError, LedgerError, Mismatch
from fleetledger.coordinator.ledger import schema
from fleetledger.coordinator.ledger.entries import COLUMNS, Entry
from fleetledger.coordinator.ledger.nodes import StoredNodes
from fleetledger.coordinator.ledger.runs import value_at
from fleetledger.coordinator.ledger.stored_runs import StoredRuns
from fleetledger.coordinator.paths import ledger_path
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.proofs.consistency import ConsistencyProof
from fleetledger.schemas.proofs.inclusion import InclusionProof
from fleetledger.schemas.proofs.tree import EMPTY_ROOT, HASH_BYTES
from fleetledger.schemas.proofs.tree_proofs import (
    consistency_proof,
    inclusion_path,
    inclusion_proof,
    root_at,
)
from fleetledger.schemas.values import Digest

_PAGE = 512
"""Rows fetched at a time, so that a slow reader holds no snapshot open between pages."""

_END = 2**63 - 1
_index = itemgetter(0)


@dataclass(frozen=True)
class StoredCheckpoint:
    """The tree after a group: how many entries, their root, when; `note` is a signature's place."""

    size: int
    root: Digest
    time_ns: int
    note: str | None


@dataclass(frozen=True)
class BlobRow:
    """A row of the table `blob`: a small blob (`content`), or the mark of a pruned one."""

    size: int
    pruned: bool
    content: bytes | None


class EntriesAsked(TypedDict, total=False):
    """Which entries of some kinds are asked for; see `LedgerReader.indices`."""

    device: str | None
    start: int
    stop: int
    last: bool
    where: Mapping[str, object] | None


class Recorded(Protocol):
    """Body of a kind of entry."""

    kind: ClassVar[str]


class LedgerReader:
    """Entries, checkpoints and small blobs of one ledger; use it from the thread that made it."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self.db = db
        self.path = path
        self.kept: object | None = None
        """What `core.state_fold` keeps of these entries for whoever holds this reader."""
        self.tree = StoredNodes(self._rows, self._leaves)
        """Tree over the entries, as it is stored."""
        self.runs = StoredRuns(self._rows)
        """Entries that are in no row of the table `entry`."""

    @staticmethod
    def open_read_only(path: Path) -> LedgerReader:
        """Open the ledger at `path` for reading; raise `LedgerError` if there is none to read."""
        if not path.is_file():
            raise LedgerError(f"{path}: no ledger there; start the coordinator, or give its --home")
        try:
            db = connect(path, writing=False)
            schema.check_layout(db, path)
        except sqlite3.Error as error:
            raise LedgerError(f"{path}: cannot be read as a ledger: {error}") from error
        return LedgerReader(db, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; the object is of no use afterwards."""
        self.db.close()

    @property
    def size(self) -> int:
        """Number of entries; the index of the next one."""
        return int(self._value(schema.SIZE))

    @property
    def root(self) -> Digest:
        """Root over the entries, as the newest checkpoint has it."""
        checkpoint = self.checkpoint
        return checkpoint.root if checkpoint else Digest(EMPTY_ROOT.hex())

    @property
    def checkpoint(self) -> StoredCheckpoint | None:
        """The newest checkpoint; None in an empty ledger."""
        rows = self._rows(_CHECKPOINTS + " ORDER BY size DESC LIMIT 1")
        return _checkpoint(rows[0]) if rows else None

    def signed_checkpoint(self, above: int, most: int | None) -> StoredCheckpoint | None:
        """Return a signed checkpoint of more than `above` entries; None where there is none.

        It is the largest of at most `most` entries; where no `most` is given, the smallest.
        """
        signed = _CHECKPOINTS + " WHERE note IS NOT NULL AND size > ?"
        if most is None:
            rows = self._rows(signed + " ORDER BY size LIMIT 1", above)
        else:
            rows = self._rows(signed + " AND size <= ? ORDER BY size DESC LIMIT 1", above, most)
        return _checkpoint(rows[0]) if rows else None

    def checkpoints(self, after: int = -1, last: int | None = None) -> Iterator[StoredCheckpoint]:
        """Yield the checkpoints of more than `after` entries and at most `last`, smallest first."""
        size, last = after, 2**63 - 1 if last is None else last
        while rows := self._rows(
            _CHECKPOINTS + " WHERE size > ? AND size <= ? ORDER BY size LIMIT ?", size, last, _PAGE
        ):
            yield from map(_checkpoint, rows)
            size = rows[-1][0]

    def entry(self, index: int) -> Entry:
        """Return one entry; raise `LedgerError` if there is no such index."""
        for row in self._rows_at([index]):
            return Entry.from_row(row)
        raise LedgerError(f"index: {index} is not in the ledger; it holds 0 to {self.size - 1}")

    def text(self, index: int) -> str:
        """Return the bytes of an entry as text; raise `LedgerError` if there is no such index."""
        return self.entry(index).canonical.decode()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Yield entries with start <= index < stop.

        Every entry is checked against its leaf hash; raises `LedgerCorruptError` at the first
        that does not fit.
        """
        return map(Entry.from_row, self.rows(start, stop))

    def checked_entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Yield the same as `entries`, unchecked and without bytes: for where a walk checks them.

        What is made of them counts only where that walk has found nothing.
        """
        return map(Entry.of_checked, self.rows(start, stop))

    def at(self, indices: Iterable[int]) -> Iterator[Entry]:
        """Yield the entries with some indices, in their order, unchecked."""
        return map(Entry.of_checked, self._rows_at(indices))

    def find(self, *bodies: type[Recorded], **asked: Unpack[EntriesAsked]) -> Iterator[Entry]:
        """Yield the entries of `indices`, unchecked."""
        return self.at(self.indices(*bodies, **asked))

    def indices(
        self,
        *bodies: type[Recorded],
        device: str | None = None,
        start: int = 0,
        stop: int = _END,
        last: bool = False,
        where: Mapping[str, object] | None = None,
    ) -> list[int]:
        """Return entries of some kinds with start <= index < stop, oldest first.

        Those of a device where one is given, whose bodies have the values of `where`, each named by
        its path. With `last` only the last of each device.
        """
        kinds = " OR ".join(f"kind = '{body.kind}'" for body in bodies)
        asked = {
            f"json_extract(body, '$.{path}') = ?": value for path, value in (where or {}).items()
        }
        if device is not None:
            asked["device = ?"] = device
        query = (
            f"SELECT {'max(idx)' if last else 'idx'} FROM entry WHERE "  # noqa: S608 - our own names
            f"{' AND '.join((f'({kinds})', 'idx >= ? AND idx < ?', *asked))}"
            f"{' GROUP BY device' if last else ''} ORDER BY 1"
        )
        found: list[int] = [row[0] for row in self._rows(query, start, stop, *asked.values())]
        if not any(body.kind in schema.RUN_KINDS for body in bodies):
            return found
        found += self.runs.indices(device, start, stop, where or {})
        if last:
            ends = {row[4]: row[0] for row in self._rows_at(sorted(found))}
            found = list(ends.values())
        return sorted(found)

    def values(self, indices: Iterable[int], path: str) -> dict[int, Any]:
        """Return what the bodies of entries have at a path, by index; equal objects may be one."""
        asked, found = list(indices), dict[int, Any]()
        for first in range(0, len(asked), _PAGE):
            page = asked[first : first + _PAGE]
            rows = self._rows(_AT, json.dumps(page))
            found |= {row[0]: value_at(from_json(row[5]), path) for row in rows}
            found |= self.runs.values([index for index in page if index not in found], path)
        return {index: found[index] for index in asked if index in found}

    def times(self, indices: Iterable[int]) -> list[int]:
        """Return when the entries with some indices were made."""
        return [row[1] for row in self._rows_at(indices)]

    def replaced(self, of: Iterable[int] | None = None) -> list[tuple[int, int, str]]:
        """Return entries that an entry says it replaces: each with that entry and its kind.

        All of them, or those of some.
        """
        if of is None:
            return self._rows(_REPLACED)
        return self._rows(_REPLACED + _AMONG, json.dumps(list(of)))

    def newest(
        self,
        limit: int,
        *,
        before: int = _END,
        kinds: Collection[str] | None = None,
        devices: Collection[str] | None = None,
        about: str | None = None,
        word: str | None = None,
    ) -> list[Entry]:
        """Return at most `limit` entries below an index, newest first; raise `LedgerCorruptError`.

        Of some kinds, of some devices, of or about one device, or with a word: a device, a kind, or
        anything that the body has in it.
        """
        listed = (None if names is None else json.dumps(list(names)) for names in (kinds, devices))
        rows = self._rows(_NEWEST, before, *listed, about, word, limit)
        if kinds is None or any(kind in kinds for kind in schema.RUN_KINDS):
            if about is not None:
                devices = [about] if devices is None or about in devices else []
            runs = self.runs.newest(before, devices, word)
            rows = list(islice(merge(rows, runs, key=_index, reverse=True), limit))
        return list(map(Entry.from_row, rows))

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Sequence[Any]]:
        """Yield the same as `entries`, unchecked, as rows of the table `entry`."""
        stop = _END if stop is None else stop
        return merge(self._alone(start, stop), self.runs.rows(start, stop), key=_index)

    def _alone(self, start: int, stop: int) -> Iterator[Sequence[Any]]:
        """Yield the rows that are in no run."""
        while rows := self._rows(_ENTRIES, start, stop - 1, _PAGE):
            yield from rows
            start = rows[-1][0] + 1

    def _rows_at(self, indices: Iterable[int]) -> Iterator[Sequence[Any]]:
        """Yield the rows with some indices, in their order; none where there is no such entry."""
        asked = list(indices)
        for first in range(0, len(asked), _PAGE):
            page = asked[first : first + _PAGE]
            alone = {row[0]: row for row in self._rows(_AT, json.dumps(page))}
            others = self.runs.rows_at([index for index in page if index not in alone])
            found = (alone[index] if index in alone else next(others) for index in page)
            yield from (row for row in found if row is not None)

    def _leaves(self, start: int, stop: int) -> list[bytes]:
        found = self._rows(_LEAVES, start, stop)
        if len(found) < stop - start:
            found = sorted([*found, *self.runs.leaves(start, stop)])
        return [leaf for _, leaf in found]

    def root_at(self, size: int) -> Digest:
        """Return the root as it was with `size` entries; raise `ProofError` for none of its sizes.

        Roots and proofs are made from what is stored; `verify` tells whether that is right.
        """
        self._check_size(size)
        return root_at(self.tree, size)

    def inclusion_proof(self, index: int, size: int) -> InclusionProof:
        """Return the proof that an entry is in the ledger of `size`; raise `ProofError`."""
        self._check_size(size)
        return inclusion_proof(self.tree, index, size)

    def inclusion_path(self, index: int, size: int) -> list[bytes]:
        """Return the hashes of `inclusion_proof` as bytes, lowest first."""
        self._check_size(size)
        return inclusion_path(self.tree, index, size)

    def consistency_proof(self, first: int, second: int) -> ConsistencyProof:
        """Return the proof that the ledger only grew between two sizes; raise `ProofError`."""
        self._check_size(second)
        return consistency_proof(self.tree, first, second)

    def wrong_node(self) -> Mismatch | None:
        """Return the first stored node of the tree that does not follow from the leaves."""
        wrong = StoredNodes(self._rows, self._leaves).wrong(self.size)
        if wrong is None:
            return None
        level, position, expected, found = wrong
        return Mismatch(f"node {position} of level {level} of the tree", "hash", expected, found)

    def nodes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return the stored nodes of a level with start <= position < stop that there are."""
        query = (
            "SELECT hash FROM node WHERE level = ? AND position >= ? AND position < ?"
            " ORDER BY position"
        )
        return [bytes(row[0]) for row in self._rows(query, level, start, stop)]

    def upper_nodes(self, level: int) -> tuple[int, dict[tuple[int, int], bytes]]:
        """Return how many nodes are stored, and those above a level, by level and position."""
        rows = self._rows("SELECT level, position, hash FROM node WHERE level > ?", level)
        count = self._value("SELECT count(*) FROM node")
        return count, {(row[0], row[1]): bytes(row[2]) for row in rows}

    def _check_size(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise ProofError(
                f"size: {size} is not allowed; the ledger holds "
                f"{count_of(self.size, 'entry', 'entries')}"
            )

    def blob(self, digest: Digest) -> BlobRow | None:
        """Return what the database knows of a blob; None for one it does not hold."""
        rows = self._rows("SELECT size, state, content FROM blob WHERE digest = ?", digest)
        return BlobRow(rows[0][0], rows[0][1] == schema.PRUNED, rows[0][2]) if rows else None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the ledger throughout, whatever the writer commits meanwhile.

        Inside of another one it is that one.
        """
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            self.db.rollback()

    def _value(self, sql: str) -> Any:  # noqa: ANN401 - whatever the query gives
        return self._rows(sql)[0][0]

    def _rows(self, sql: str, *parameters: object) -> list[Any]:
        try:
            return list(self.db.execute(sql, parameters).fetchall())
        except sqlite3.ProgrammingError:
            raise  # used from another thread, or closed: a mistake in this program
        except sqlite3.OperationalError as error:
            raise LedgerError(f"{self.path}: cannot be read now: {error}") from error
        except sqlite3.DatabaseError as error:
            mismatch = Mismatch(str(self.path), "a page of the file", "readable", str(error))
            raise LedgerCorruptError(mismatch) from error


_OF_TABLE = f"SELECT {', '.join(COLUMNS)} FROM entry"  # noqa: S608 - a constant
_LEAVES = "SELECT idx, leaf FROM entry WHERE idx >= ? AND idx < ? ORDER BY idx"
_ENTRIES = f"{_OF_TABLE} WHERE idx BETWEEN ? AND ? ORDER BY idx LIMIT ?"
_AT = f"{_OF_TABLE} WHERE idx IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
_REPLACED = (
    f"SELECT {schema.REPLACES}, idx, kind FROM entry"  # noqa: S608 - a constant
    f" WHERE {schema.REPLACES} IS NOT NULL"
)
_AMONG = f" AND {schema.REPLACES} IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
_NEWEST = f"""{_OF_TABLE} WHERE idx < ?1
AND (?2 IS NULL OR kind IN (SELECT value FROM json_each(?2)))
AND (?3 IS NULL OR device IN (SELECT value FROM json_each(?3)))
AND (?4 IS NULL OR device = ?4 OR (device IS NULL AND instr(body, '"' || ?4 || '"')))
AND (?5 IS NULL OR device = ?5 OR kind = ?5 OR instr(lower(body), lower(?5)))
ORDER BY idx DESC LIMIT ?6"""  # noqa: S608 - a constant
_CHECKPOINTS = "SELECT size, root, time_ns, note FROM checkpoint"


def connect(path: Path, *, writing: bool, busy_seconds: float = 5.0) -> sqlite3.Connection:
    """Open the database file; text that is not UTF-8 any more is read with U+FFFD in it.

    So damaged text reaches the check of its leaf, which names the entry, instead of ending the
    query without saying where.
    """
    mode = "rwc" if writing else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=busy_seconds)
    connection.text_factory = _lenient_text
    connection.execute("PRAGMA recursive_triggers = ON")
    return connection


def _lenient_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _checkpoint(row: Sequence[Any]) -> StoredCheckpoint:
    size, root, time_ns, note = row
    if len(root) != HASH_BYTES:
        place = f"checkpoint of size {size}"
        raise LedgerCorruptError(
            Mismatch(place, "root", f"{HASH_BYTES} bytes", root.hex() or "none")
        )
    return StoredCheckpoint(size, Digest(root.hex()), time_ns, note)


def ledger_of(home: Path) -> LedgerReader:
    """Open the ledger of the coordinator in `home` for reading; raise `LedgerError`."""
    return LedgerReader.open_read_only(ledger_path(home))

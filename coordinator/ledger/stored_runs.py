"""The runs of one ledger: its entries that are in none of the rows of the table `entry`.

Most questions are answered by what stands first in a row (index, kind, time, marks); names and
texts are decompressed of the runs alone that may hold what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fleetledger.coordinator.ledger.runs import RUN_COLUMNS, Row, StoredRun, marked, unpacked
from fleetledger.schemas.proofs.tree import HASH_BYTES
from fleetledger.schemas.values import Digest

_KEPT = 16
"""Runs that stay decompressed."""
_PAGE = 256
END = 2**63 - 1

Query = Callable[..., Sequence[Sequence[Any]]]
"""Runs one statement with its parameters and returns all rows."""


class RunHead(NamedTuple):
    """What a run says of itself before it is decompressed."""

    first: int
    size: int
    marks: bytes


@dataclass(frozen=True)
class StoredRuns:
    """Reads the runs of a ledger; `query` reads its database."""

    query: Query
    _kept: dict[int, StoredRun] = field(default_factory=dict, compare=False, repr=False)
    """Runs that were read last, by their first entries, the newest use last."""

    def keep(self, run: StoredRun) -> StoredRun:
        """Let a run stay decompressed for whoever asks next."""
        self._kept.pop(run.first, None)
        if len(self._kept) >= _KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[run.first] = run
        return run

    def kept_text(self, index: int) -> str | None:
        """Return the bytes of an entry as text, of a run that is in memory; None of others."""
        for run in reversed(self._kept.values()):
            if run.first <= index < run.end:
                return run.text(index)
        return None

    def holding(self, index: int) -> StoredRun | None:
        """Return the run with an entry; None where it is in none. Raises `LedgerCorruptError`."""
        for run in reversed(self._kept.values()):
            if run.first <= index < run.end:
                return self.keep(run)
        found = self.query(f"{_RUN} WHERE first <= ? ORDER BY first DESC LIMIT 1", index)
        if found and index < found[0][0] + found[0][1]:
            return self.keep(StoredRun.from_row(found[0]))
        return None

    def rows_at(self, indices: Sequence[int]) -> Iterator[Row | None]:
        """Yield entries as rows of the table `entry`, in order; None for each that is in no run.

        Those that follow on each other are read together. Raises `LedgerCorruptError`.
        """
        for run, asked in self._by_run(indices):
            yield from (None,) if run is None else run.rows(asked.start, asked.stop)

    def values(self, indices: Sequence[int], path: str) -> dict[int, Any]:
        """Return what the bodies of entries have at a path, by index, of those that are in a run.

        Raises `LedgerCorruptError`.
        """
        found = dict[int, Any]()
        for run, asked in self._by_run(indices):
            if run is not None:
                found |= zip(asked, run.values(asked.start, asked.stop, path), strict=True)
        return found

    def _by_run(self, indices: Sequence[int]) -> Iterator[tuple[StoredRun | None, range]]:
        """Yield runs with those of the indices that follow on each other in it, in order.

        An index that is in no run is alone.
        """
        place = 0
        while place < len(indices):
            first = indices[place]
            run = self.holding(first)
            least = 1 if run is None else min(run.end - first, len(indices) - place)
            together = next((n for n in range(1, least) if indices[place + n] != first + n), least)
            yield run, range(first, first + together)
            place += together

    def rows(self, start: int, stop: int) -> Iterator[Row]:
        """Yield the entries of runs with start <= index < stop, as rows of the table `entry`.

        Raises `LedgerCorruptError`.
        """
        for head in self.heads(start, stop):
            run = self._run(head.first)
            if start <= run.first:  # by a walk over all entries once
                run.check_marks()
            yield from run.rows(start, stop)

    def leaves(self, start: int, stop: int) -> list[tuple[int, bytes]]:
        """Return index and leaf hash of the entries of runs with start <= index < stop."""
        found = []
        for first, size, _ in self.heads(start, stop):
            begin, end = max(start, first), min(stop, first + size)
            part = (1 + HASH_BYTES * (begin - first), HASH_BYTES * (end - begin))
            ((leaves,),) = self.query(f"{_LEAVES} WHERE first = ?", *part, first)
            found += [
                (begin + n // HASH_BYTES, leaves[n : n + HASH_BYTES])
                for n in range(0, len(leaves), HASH_BYTES)
            ]
        return found

    def heads(self, start: int = 0, stop: int = END, *, newest: bool = False) -> Iterator[RunHead]:
        """Yield the heads of runs with entries start <= index < stop, oldest or newest first."""
        rows = self.query("SELECT max(first) FROM run WHERE first <= ?", start)
        start = start if rows[0][0] is None else rows[0][0]
        order = "DESC" if newest else "ASC"
        while rows := self.query(f"{_HEADS} ORDER BY first {order} LIMIT {_PAGE}", start, stop):
            yield from map(RunHead._make, rows)
            if newest:
                stop = rows[-1][0]
            else:
                start = rows[-1][0] + 1

    def indices(
        self,
        device: str | None,
        start: int,
        stop: int,
        where: Mapping[str, object],
    ) -> list[int]:
        """Return the entries with start <= index < stop, of a device where one is given.

        Their bodies have the values of `where`, each named by its path.
        """
        found = list[int]()
        for head in self.heads(start, stop):
            some: Sequence[int] = range(head.first, head.first + head.size)
            if device is not None:
                some = self._of_devices(head, [device])
            if where and some:
                having = set(self._run(head.first).having(where))
                some = [index for index in some if index in having]
            found += [index for index in some if start <= index < stop]
        return found

    def newest(
        self, before: int, devices: Collection[str] | None, word: str | None
    ) -> Iterator[Row]:
        """Yield the entries below an index, newest first: of some devices, with a word."""
        for head in self.heads(0, before, newest=True):
            some: Sequence[int] = range(head.first, min(head.first + head.size, before))
            if devices is not None:
                some = [index for index in self._of_devices(head, devices) if index < before]
            for index in reversed(some):
                row = next(self._run(head.first).rows(index, index + 1))
                if word is None or _has(row, word):
                    yield row

    def _of_devices(self, head: RunHead, devices: Collection[str]) -> Sequence[int]:
        """Return the entries of a run by some devices; of most runs by its marks alone."""
        if not any(marked(head.marks, name) for name in devices):
            return ()
        ((packed, kind),) = self.query("SELECT names, kind FROM run WHERE first = ?", head.first)
        names = unpacked(packed, head.first, kind)
        return [index for index, name in enumerate(names, head.first) if name in devices]

    def unkept_between(self, start: int, stop: int) -> dict[str, int]:
        """Return sizes, by digest, of blobs that were not kept, of all runs with such entries."""
        found = dict[str, int]()
        for head in self.heads(start, stop):
            found |= self._run(head.first).unkept
        return found

    def unkept(self, digest: Digest) -> int | None:
        """Return the size of a blob that was used and not kept; None where no run names one.

        The runs that were read last are looked at first: to look at all takes a while.
        """
        for run in reversed(self._kept.values()):
            if digest in run.unkept:
                return run.unkept[digest]
        named = bytes.fromhex(digest)
        for (first,) in self.query("SELECT first FROM run WHERE instr(digests, ?)", named):
            run = self._run(first)
            if digest in run.unkept:
                return run.unkept[digest]
        return None

    def _run(self, first: int) -> StoredRun:
        return self._kept.get(first) or self.keep(
            StoredRun.from_row(self.query(f"{_RUN} WHERE first = ?", first)[0])
        )


def _has(row: Row, word: str) -> bool:
    """Return whether an entry has a word, as SQLite finds it."""
    return word in (row[2], row[4]) or word.encode().lower() in row[5].encode().lower()


_RUN = f"SELECT {', '.join(RUN_COLUMNS)} FROM run"  # noqa: S608 - a constant
_HEADS = "SELECT first, count, marks FROM run WHERE first >= ? AND first < ?"
_LEAVES = "SELECT substr(leaves, ?, ?) FROM run"

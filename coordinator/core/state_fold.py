"""The state of a ledger: that of the newest snapshot which fits, and the entries behind it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import NamedTuple

from pydantic import ValidationError

from fleetledger.coordinator.core.saved_state import folding_program, read_state, write_state
from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.errors import FoldError, LedgerError, SnapshotError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.keys import kept_key
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.ledger.snapshots import StateSnapshots, StoredState, snapshot_files
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import Digest

log = logging.getLogger("coordinator")

_NOT_USED = "%s: not used, entries are read instead: %s"
_MANY = 5_000
"""Entries that take a reader about half a second to fold, where a snapshot takes less to write."""


class Folded(NamedTuple):
    """The state that a ledger gives."""

    state: State
    read: int
    """Entries that had to be read for it; the others are in the snapshot that it began with."""


def folded(ledger: LedgerReader, *, forget: bool = False) -> Folded:
    """Return the state of a ledger, every entry behind the snapshot checked against its leaf.

    A snapshot that does not fit is logged and left alone, or deleted if `forget`; without one all
    entries are read. Raises what reading the ledger does, and `FoldError`.
    """
    state = _of_snapshot(ledger, whole=True, forget=forget)
    began = state.size
    fold(state, ledger.entries(began))
    return Folded(state, state.size - began)


def fold(state: State, entries: Iterable[Entry]) -> None:
    """Apply entries to a state that has all before them; raise `FoldError` naming the entry."""
    for entry in entries:
        try:
            state.apply(read_entry(entry.kind, entry.body), entry.device, entry.time_ns)
        except (LookupError, ValueError, TypeError, AssertionError) as error:
            raise FoldError(entry.index, entry.kind, _reason(error)) from error


def state_of(ledger: LedgerReader) -> State:
    """Return the state of a ledger as this reader sees it, to read.

    Entries behind the snapshot are not checked against their leaves: the coordinator and `ledger
    verify` check them. A reader that had to fold many of them keeps a snapshot for the next one.
    Raises `LedgerError`.
    """
    found = ledger.kept
    if isinstance(found, LedgerError):
        raise found
    if not isinstance(found, State):
        found = _read(ledger)
    fold(found, ledger.checked_entries(found.size))
    ledger.kept = found
    return found


class StateKeeper:
    """State of one ledger that follows it, for programs that read it again and again.

    Threads read it at the same time. It changes only while none does.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._free = Condition()
        self._readers = 0
        self._state: State | LedgerError | None = None
        self._root: Digest | None = None

    @contextmanager
    def reading(self) -> Iterator[LedgerReader]:
        """Open the ledger in one transaction, whose `state_of` is the kept state at its size.

        Raises `LedgerError` where there is no ledger. A ledger that cannot be folded is opened:
        then `state_of` raises, and all else can be read.
        """
        with ledger_of(self.home) as ledger:
            self._enter(ledger)
            try:
                yield ledger
            finally:
                with self._free:
                    self._readers -= 1
                    self._free.notify_all()

    def _enter(self, ledger: LedgerReader) -> None:
        with self._free:
            ledger.db.execute("BEGIN")  # until the reader is closed
            while self._readers and not self._is_of(ledger):
                ledger.db.rollback()
                self._free.wait()
                ledger.db.execute("BEGIN")
            if not self._readers:
                self._follow(ledger)
            ledger.kept = self._state
            self._readers += 1

    def _is_of(self, ledger: LedgerReader) -> bool:
        """Return whether this reader can read what is kept, as it is."""
        state = self._state
        return not isinstance(state, State) or (state.size == ledger.size and self._fits(ledger))

    def _fits(self, ledger: LedgerReader) -> bool:
        state = self._state
        if not isinstance(state, State) or state.size > ledger.size:
            return False
        return ledger.root_at(state.size) == self._root

    def _follow(self, ledger: LedgerReader) -> None:
        ledger.kept = self._state if self._fits(ledger) else None
        try:
            self._state = state_of(ledger)
            self._root = ledger.root_at(ledger.size)
        except LedgerError as error:
            self._state = error  # and not the half that was folded


def _reason(error: Exception) -> str:
    return explain(error) if isinstance(error, ValidationError) else f"{error!r}"


def _read(ledger: LedgerReader) -> State:
    state = _of_snapshot(ledger)
    began = state.size
    fold(state, ledger.checked_entries(began))
    if state.size - began > _MANY:
        try:
            keep_snapshot(ledger, state)
        except SnapshotError as error:
            log.debug("the state is not kept for the next reader: %s", error)
    return state


def keep_snapshot(ledger: LedgerReader, state: State) -> None:
    """Write the state that a ledger gave when it had as many entries; raise `SnapshotError`."""
    snapshots_of(ledger).write(write_state(state), ledger, state.size)


def snapshots_of(ledger: LedgerReader) -> StateSnapshots:
    """Return the snapshots of a ledger that this program writes and reads."""
    home = ledger.path.parent.parent
    return StateSnapshots(ledger.path, folding_program(), kept_key(home))


def _of_snapshot(
    ledger: LedgerReader, most: int | None = None, *, whole: bool = False, forget: bool = False
) -> State:
    """Return the newest kept state that fits, of at most `most` entries; without one, none's.

    It is loaded as a whole, or part by part when they are asked for.
    """
    if not snapshot_files(ledger.path):
        return State()  # without the program's digest and the key, which cost more than few entries
    snapshots = snapshots_of(ledger)
    for path in snapshots.files():
        try:
            stored = snapshots.read(path, ledger)
            if most is None or stored.head.size <= most:
                return _state_of(stored, None if whole else _Instead(ledger.path, stored))
        except SnapshotError as error:
            log.warning(_NOT_USED, path, error)
            if forget:
                snapshots.forget(path)
    return State()


def _state_of(stored: StoredState, instead: _Instead | None) -> State:
    state = read_state(stored.part, instead)
    if instead is None:
        state.listen()
    if state.size != stored.head.size:
        raise SnapshotError(
            f"a state of {count_of(state.size, 'entry', 'entries')} under a head "
            f"of {stored.head.size}"
        )
    return state


@dataclass(frozen=True)
class _Instead:
    """Gives a kept state of which a part turned out to be damaged, by an older one and entries."""

    ledger: Path
    damaged: StoredState

    def __call__(self, error: SnapshotError) -> State:
        head = self.damaged.head
        log.warning(_NOT_USED, self.damaged.path, error)
        with LedgerReader.open_read_only(self.ledger) as ledger, ledger.snapshot():
            if ledger.size < head.size or ledger.root_at(head.size) != head.root:
                raise LedgerError(f"{self.ledger}: was exchanged meanwhile; ask again")
            state = _of_snapshot(ledger, head.size - 1, whole=True)
            fold(state, ledger.checked_entries(state.size, head.size))
        return state

"""The state of a ledger: that of the newest snapshot which fits, and the entries behind it."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from fleetledger.coordinator.core.saved_state import folding_program, read_state, write_state
from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.snapshots import StateSnapshots, StoredState
from fleetledger.coordinator.trust.keys import kept_key
from fleetledger.schemas.counted import count_of

log = logging.getLogger("coordinator")

_LARGE_BYTES = 1 << 22
"""Of a state whose objects are so many that looking for cycles among them takes long."""


class Folded(NamedTuple):
    """The state that a ledger gives."""

    state: State
    read: int
    """Entries that had to be read for it; the others are in the snapshot that it began with."""


def folded(ledger: LedgerReader, *, forget: bool = False) -> Folded:
    """Return the state of a ledger.

    A snapshot that does not fit is told in the log and left alone, or deleted if `forget`; without
    one all entries are read. Raises what reading the ledger does, and `KeyError` for a kind of
    entry that this program does not know.
    """
    state = _of_snapshot(ledger, forget=forget)
    began = state.size
    fold(state, ledger.entries(began))
    return Folded(state, state.size - began)


def fold(state: State, entries: Iterable[Entry]) -> None:
    """Take entries into a state, which has taken all before them."""
    for entry in entries:
        state.apply(read_entry(entry.kind, entry.body), entry.device, entry.time_ns)


def keep_snapshot(ledger: LedgerReader, state: State) -> None:
    """Write the state that a ledger gave when it had as many entries; raise `SnapshotError`."""
    snapshots_of(ledger).write(write_state(state), ledger, state.size)


def snapshots_of(ledger: LedgerReader) -> StateSnapshots:
    """Return the snapshots of a ledger that this program writes and reads."""
    home = ledger.path.parent.parent
    return StateSnapshots(ledger.path, folding_program(), kept_key(home))


def _of_snapshot(ledger: LedgerReader, *, forget: bool) -> State:
    snapshots = snapshots_of(ledger)
    for path in snapshots.files():
        try:
            return _state_of(snapshots.read(path, ledger))
        except SnapshotError as error:
            log.warning("%s: not used, entries are read instead: %s", path, error)
            if forget:
                snapshots.forget(path)
    return State()


def _state_of(stored: StoredState) -> State:
    with _never_collected() if len(stored.data) >= _LARGE_BYTES else nullcontext():
        state = read_state(stored.data)
    if state.size != stored.head.size:
        raise SnapshotError(
            f"a state of {count_of(state.size, 'entry', 'entries')} under a head "
            f"of {stored.head.size}"
        )
    return state


@contextmanager
def _never_collected() -> Iterator[None]:
    """Have what is made meanwhile left out of every search for cycles: it has none.

    It is let go as soon as nothing refers to it, as ever. The first search after a million objects
    were made would take a quarter of the time that making them does, and each later one again.
    """
    was = gc.isenabled()
    gc.collect()  # what is garbage now would stay for ever
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was:
            gc.enable()

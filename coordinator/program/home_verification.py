"""The ledger of a home verified by several processes, with all that is kept beside it.

Ranges of entries are looked at by whoever is free; the state is made anew by one process, which
holds every snapshot against it. What they say is joined here, in the order of the entries. An
interrupted walk leaves what it has seen, from which another one may go on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Protocol, TypeVar

from fleetledger.coordinator import errors
from fleetledger.coordinator.core.saved_state import write_state
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import fold, snapshots_of
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.keys import note_reader
from fleetledger.coordinator.ledger.ranges import RANGE, RangeWalk, ReadNote, ranges, walk_range
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.snapshots import StoredState
from fleetledger.coordinator.ledger.verify import VerificationReport, joined
from fleetledger.coordinator.ledger.verify_progress import VerifyProgress
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions import budget
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.rounds import budget as round_budget
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import Digest, FleetId

_WORTH_A_PROCESS = 2 * RANGE
"""Entries below which starting processes takes longer than looking."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class VerifiedHome:
    """What is verified; processes get it as it is."""

    home: Path
    blobs: str | Path
    """Where the large ones are."""
    fleet: FleetId | None
    """Whose notes the checkpoints have; None where it is not known, and notes are not read."""

    @property
    def path(self) -> Path:
        """The ledger's file."""
        return ledger_path(self.home)


@dataclass(frozen=True)
class KeptStates:
    """What is kept of the state beside a ledger."""

    fitting: int = 0
    """Snapshots that are what the entries give."""
    mismatch: errors.Mismatch | None = None
    """The first one that is something else; it was thrown away."""


class _Ask(Protocol):
    """Has a function called, here or in another process; what it returns waits for the answer."""

    def __call__(self, function: Callable[..., Answer], *given: object) -> Callable[[], Answer]: ...


def _here(function: Callable[..., Answer], *given: object) -> Callable[[], Answer]:
    """Have it called here, once, when its answer is asked for."""
    return cache(partial(function, *given))


def verify_home(
    what: VerifiedHome,
    *,
    jobs: int = 1,
    resume: bool = False,
    progress: Callable[[int], None] | None = None,
) -> VerificationReport:
    """Check one state of a ledger, also while its writer goes on; never raises for a mismatch.

    With `resume` ranges that an interrupted call has looked at are taken as it saw them. `progress`
    is called with the number of entries that were looked at. Raises `LedgerError` where there is no
    ledger to read, or a process was killed.
    """
    with LedgerReader.open_read_only(what.path) as ledger, ledger.snapshot():
        kept = VerifyProgress(what.path)
        finished = False
        try:
            done = kept.begin(ledger, resume=resume)
            with _asking(what, jobs if ledger.size >= _WORTH_A_PROCESS else 1) as ask:
                states = ask(_states, what)
                bounds = ranges(ledger.size)
                walks = [_walk_of(ask, done, *start_and_stop) for start_and_stop in bounds]
                found = _noted(walks, kept)
                report = joined(
                    ledger, found, progress, lambda: states().mismatch, prunings=Prunings()
                )
                finished = True
                return replace(report, snapshots=states().fitting) if report.ok else report
        finally:
            kept.close(finished=finished)


def _walk_of(
    ask: _Ask, done: dict[int, RangeWalk], start: int, stop: int
) -> Callable[[], RangeWalk]:
    if start in done:
        return partial(done.__getitem__, start)
    return ask(_walk, start, stop)


def _noted(walks: list[Callable[[], RangeWalk]], kept: VerifyProgress) -> Iterator[RangeWalk]:
    for waiting in walks:
        walk = waiting()
        kept.add(walk)
        yield walk


@contextmanager
def _asking(what: VerifiedHome, jobs: int) -> Iterator[_Ask]:
    """Give what has functions called by so many processes, or by this one alone."""
    if jobs <= 1:
        with ExitStack() as stack:
            stack.callback(_close)
            _open(what)
            yield _here
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_open_worker, initargs=(what,))
    try:
        yield lambda function, *given: pool.submit(function, *given).result
    except BrokenProcessPool as error:
        raise errors.LedgerError(
            "a process that verified was killed; give fewer --jobs if memory was short, and "
            "--resume goes on"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass
class _Opened:
    """What a process that looks at ranges has open."""

    ledger: LedgerReader
    blobs: Blobs
    read_note: ReadNote | None


_opened: list[_Opened] = []
"""One in a process that looks at ranges: opened once, and used for all of them."""


def _open_worker(what: VerifiedHome) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupted command says so itself
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _open(what)


def _end_with_parent() -> None:
    """End this process where the one that began it was killed, and asks for nothing more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _open(what: VerifiedHome) -> None:
    ledger = LedgerReader.open_read_only(what.path)
    reader = None if what.fleet is None else note_reader(what.home, what.fleet)
    _opened.append(_Opened(ledger, Blobs(ledger, BlobStore(what.blobs)), reader))


def _close() -> None:
    while _opened:
        _opened.pop().ledger.close()


def _walk(start: int, stop: int) -> RangeWalk:
    opened = _opened[-1]
    return walk_range(opened.ledger, opened.blobs, start, stop, opened.read_note)


def _states(what: VerifiedHome) -> KeptStates:
    """Hold every snapshot that a start would take against the state that the entries give."""
    with LedgerReader.open_read_only(what.path) as ledger:
        state = State()
        kept = KeptStates()
        try:
            for path, stored in sorted(_snapshots(ledger), key=lambda found: found[1].head.size):
                fold(state, ledger.checked_entries(state.size, stored.head.size))
                wrong = _wrong_state(state, stored)
                if wrong is not None:
                    snapshots_of(ledger).forget(path)
                    kept = replace(kept, mismatch=kept.mismatch or wrong)
                else:
                    kept = replace(kept, fitting=kept.fitting + 1)
            if state.contributions.noisy or state.rounds.spent or _has_noise(ledger):
                fold(state, ledger.checked_entries(state.size, ledger.size))
                kept = replace(kept, mismatch=kept.mismatch or _wrong_spending(state))
        except errors.LedgerCorruptError as error:
            return replace(kept, mismatch=error.mismatch)
        return kept


def _has_noise(ledger: LedgerReader) -> bool:
    if any("noise" in entry.body["settings"] for entry in ledger.find(BackboneImported)):
        return True
    return any("answer_privacy" in entry.body for entry in ledger.find(NetworkImported))


def _wrong_spending(state: State) -> errors.Mismatch | None:
    """Return a device of which more was taken than its budget of privacy allows."""
    lineages = state.lineages
    for rule, found, what in (
        (lineages.noise, budget.overspent(state), "parts"),
        (lineages.answer_privacy, round_budget.overspent(state), "answers"),
    ):
        if rule is not None and found is not None:
            return errors.Mismatch(
                f"privacy of device {found[0]}",
                f"epsilon at delta {rule.delta:g}",
                f"at most {rule.epsilon:g}",
                f"{found[1]:.4g} by the entries of its {what}",
            )
    return None


def _snapshots(ledger: LedgerReader) -> Iterator[tuple[Path, StoredState]]:
    snapshots = snapshots_of(ledger)
    for path in snapshots.files():
        try:
            stored = snapshots.read(path, ledger)
            stored.parts()
            yield path, stored
        except errors.SnapshotError:
            continue  # no start takes it, and the next one throws it away


def _wrong_state(state: State, stored: StoredState) -> errors.Mismatch | None:
    found = {part.name: part.digest for part in stored.head.parts}
    expected = {name: Digest.of(data) for name, data in write_state(state).items()}
    if expected == found:
        return None
    wrong = next(name for name in expected if expected[name] != found.get(name))
    place = f"{wrong} of the kept state of {count_of(stored.head.size, 'entry', 'entries')}"
    said = f"{found.get(wrong)}; it was thrown away, so start the coordinator anew"
    return errors.Mismatch(place, "digest", f"{expected[wrong]} by the entries", said)

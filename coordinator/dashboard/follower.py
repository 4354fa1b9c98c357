"""Follower of the ledger and of presence: one check a second for all that listen.

Whoever listens has a short queue. Who does not empty it is dropped, and comes again by the index of
the last entry that it was told of; nothing is lost, because the ledger has it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import PresenceNow, read_presence
from fleetledger.runtime.strict import Strict

LOOK_SECONDS = 1.0
MOST_WAITING = 32
"""Changes that wait for one who listens, before it is dropped."""
MOST_LISTENERS = 400
_MOST_NAMED = 50
log = logging.getLogger(__name__)


class NewEntries(Strict):
    """Entries that came into the ledger; every index from `first` to `last`."""

    first: int
    last: int
    kinds: dict[str, int]
    """How many of each kind."""
    devices: tuple[str, ...]
    """Devices that they are about, the first fifty."""


class WhoIsThere(Strict):
    """Devices that came or went, and whether a coordinator serves."""

    online: tuple[str, ...]
    away: tuple[str, ...]
    devices_online: int
    serves: bool


Change = NewEntries | WhoIsThere


class LedgerFollower:
    """Looks for changes while somebody listens."""

    def __init__(self, home: Path, now_ns: Callable[[], int]) -> None:
        self._home = home
        self._now_ns = now_ns
        self._queues: set[asyncio.Queue[Change | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._size = 0
        self._there = PresenceNow()
        self.stopped = False

    @property
    def full(self) -> bool:
        """Whether nobody more may listen."""
        return len(self._queues) >= MOST_LISTENERS

    async def listen(self, since: int | None) -> AsyncIterator[Change]:
        """Yield what changed after entry `since` (None: from now on), until this one is dropped.

        Changes of entries follow each other without a gap.
        """
        queue: asyncio.Queue[Change | None] = asyncio.Queue(MOST_WAITING)
        if self._task is None:
            self._size, self._there = await run_in_threadpool(self._look)
        if self._task is None and not self.stopped:  # nobody else began while this one looked
            self._task = asyncio.create_task(self._follow())
        self._queues.add(queue)
        try:
            told = self._size if since is None else since + 1
            if told < self._size:
                missed = await run_in_threadpool(self._entries, told, self._size)
                told = missed.last + 1
                yield missed
            while not self.stopped and (change := await queue.get()) is not None:
                if isinstance(change, NewEntries):
                    if change.last < told:
                        continue
                    told = change.last + 1
                yield change
        finally:
            self._queues.discard(queue)
            if not self._queues:
                self._end()

    def stop(self) -> None:
        """Let everybody go who listens."""
        self.stopped = True
        for queue in tuple(self._queues):
            self._drop(queue)
        self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                size, there = await run_in_threadpool(self._look)
                if size > self._size:
                    entries = await run_in_threadpool(self._entries, self._size, size)
                    self._size = size
                    self._tell(entries)
            except (LedgerError, sqlite3.Error) as error:
                log.warning("changes of the ledger are not seen now: %s", error)
                continue
            if there != self._there:
                change = WhoIsThere(
                    online=tuple(sorted(there.online - self._there.online))[:_MOST_NAMED],
                    away=tuple(sorted(self._there.online - there.online))[:_MOST_NAMED],
                    devices_online=len(there.online),
                    serves=there.serves,
                )
                self._there = there
                self._tell(change)

    def _tell(self, change: Change) -> None:
        for queue in tuple(self._queues):
            try:
                queue.put_nowait(change)
            except asyncio.QueueFull:
                self._drop(queue)

    def _drop(self, queue: asyncio.Queue[Change | None]) -> None:
        self._queues.discard(queue)
        with suppress(asyncio.QueueEmpty):
            queue.get_nowait()
        queue.put_nowait(None)

    def _look(self) -> tuple[int, PresenceNow]:
        with ledger_of(self._home) as ledger:
            return ledger.size, read_presence(self._home, self._now_ns())

    def _entries(self, first: int, stop: int) -> NewEntries:
        kinds, devices = Counter[str](), dict[str, None]()
        with ledger_of(self._home) as ledger:
            for _, _, kind, _, device, *_ in ledger.rows(first, stop):
                kinds[kind] += 1
                if device is not None:
                    devices[device] = None
        return NewEntries(
            first=first,
            last=stop - 1,
            kinds=dict(kinds),
            devices=tuple(devices)[:_MOST_NAMED],
        )

"""Which transfers are under way and which wait; no thread, no network, no clock.

The rules:

- A peer has at most two transfers under way, and at most 64 that wait, so that it can keep neither
  places nor the queue from others. Who has fewest under way comes next, then who has waited for
  longest.
- Where there is `patience`, a transfer of which no block comes for that long ends, and with it all
  others of its peer: a device that is away is silent once, however much it had offered. Its peer
  may begin the next one only after a pause, which doubles with each such end in a row and is over
  with the first transfer that succeeds. Time without a connection does not count.
- What a peer says that it does not serve ends at once, and so does what nobody needs any more.
- Every transfer ends, at its deadline at the latest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.offers import BlockData, BlockRefusal, BlockRequest, Offer
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.alternative_source import OpenAlternative
from fleetledger.transport.block_receiver import BlockReceiver, FetchedFile
from fleetledger.transport.errors import BlockError, NotWantedError, StalledError

_MAX_ACTIVE = 32
_ACTIVE_OF_PEER = 2
_MAX_WAITING = 1_000
_WAITING_OF_PEER = 64
_SHORTEST_PAUSE_SECONDS = 15.0
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Fetch:
    """What is wanted, from whom, until when (seconds on the caller's clock)."""

    offer: Offer
    destination: Path
    peer: DeviceId
    deadline: float
    elsewhere: OpenAlternative | None = None
    """Begins to bring its blocks by another way than from the peer."""
    shares: bool = False
    """Whether its peer may send blocks to all who fetch them."""
    future: Future[Path] = field(default_factory=Future)

    def clashes_with(self, other: Fetch) -> bool:
        """Say whether both would write one file, or take each other's blocks."""
        return self.destination == other.destination or (
            (self.peer, self.offer.digest) == (other.peer, other.offer.digest)
        )

    def fail(self, reason: str, error: type[BlockError] = BlockError) -> None:
        """End without the data, unless it has ended."""
        if not self.future.done():
            self.future.set_exception(error(reason))


@dataclass
class _Stalls:
    """How often in a row a peer sent nothing, and until when it has to pause."""

    count: int
    until: float


class Fetches:
    """The transfers of one exchange; the module says by which rules."""

    def __init__(self, patience: float = float("inf")) -> None:
        self._patience = patience
        self._connected = False
        self._waiting: list[Fetch] = []
        self._active: list[tuple[Fetch, BlockReceiver]] = []
        self._stalls: dict[DeviceId, _Stalls] = {}

    def add(self, fetch: Fetch) -> None:
        """Take a transfer over; it fails at once when too many wait."""
        of_peer = sum(waiting.peer == fetch.peer for waiting in self._waiting)
        if of_peer >= _WAITING_OF_PEER:
            fetch.fail(
                f"{count_of(of_peer, 'transfer')} of {fetch.peer} wait already; offer again later"
            )
        elif len(self._waiting) >= _MAX_WAITING:
            fetch.fail(f"{_MAX_WAITING} transfers wait already; offer again later")
        else:
            self._waiting.append(fetch)

    def requests(self, now: float) -> Iterator[tuple[DeviceId, BlockRequest]]:
        """Begin and end what is due, and return what to ask of whom."""
        self._admit(now)
        for fetch, receiver in list(self._active):
            if fetch.future.done():
                continue  # it ended with another one of its peer
            for request in receiver.requests(now):
                yield fetch.peer, request
            self._settle(fetch, receiver, now)

    def deliver(
        self,
        peer: DeviceId,
        label: BlockData,
        block: bytes | memoryview,
        now: float,
        shared_at: float | None = None,
    ) -> None:
        """Hand blocks to the transfer that wants them; `shared_at` as its `receive` takes it."""
        for fetch, receiver in list(self._active):
            if (fetch.peer, fetch.offer.digest) == (peer, label.digest):
                receiver.receive(label, block, now, shared_at=shared_at)
                self._settle(fetch, receiver, now)

    def refuse(self, peer: DeviceId, refusal: BlockRefusal, now: float) -> None:
        """End the transfer of what `peer` does not serve."""
        for fetch, receiver in list(self._active):
            if (fetch.peer, fetch.offer.digest) == (peer, refusal.digest):
                receiver.abandon(f"refused: {refusal.reason}")
                self._settle(fetch, receiver, now)

    def cancel(self, digest: Digest, now: float) -> None:
        """End every transfer of data that nobody needs any more."""
        reason = f"{digest.short}… is not needed any more"
        for fetch in [item for item in self._waiting if item.offer.digest == digest]:
            self._waiting.remove(fetch)
            fetch.fail(reason, NotWantedError)
        for fetch, receiver in [item for item in self._active if item[0].offer.digest == digest]:
            receiver.abandon(reason, NotWantedError)
            self._settle(fetch, receiver, now)

    def shared(self) -> set[Digest]:
        """Return of what the blocks are wanted that all devices are sent."""
        return {fetch.offer.digest for fetch, receiver in self._active if receiver.listens}

    def disconnected(self) -> None:
        """Let no transfer end because nothing comes: nothing can."""
        self._connected = False
        for _, receiver in self._active:
            receiver.disconnected()

    def reconnected(self, now: float) -> None:
        """Let every transfer ask again for what was under way."""
        self._connected = True
        for _, receiver in self._active:
            receiver.reconnected(now)

    def next_time(self, now: float) -> float:
        """Return when `requests` should be called, if nothing arrives before."""
        times = [receiver.next_time(now) for _, receiver in self._active]
        for fetch in self._waiting:
            times.append(fetch.deadline)
            pause = self._stalls.get(fetch.peer)
            if pause is not None and pause.until > now:
                times.append(pause.until)
        return min(times, default=float("inf"))

    def fail_all(self, reason: str) -> None:
        """End everything; part files stay for the next attempt."""
        for fetch in self._waiting:
            fetch.fail(reason)
        for fetch, receiver in self._active:
            receiver.abandon(reason)
            fetch.fail(reason)
        self._waiting, self._active = [], []

    def _admit(self, now: float) -> None:
        for fetch in [fetch for fetch in self._waiting if now >= fetch.deadline]:
            self._waiting.remove(fetch)
            fetch.fail("deadline: it was still waiting for other transfers; offer again")
        while len(self._active) < _MAX_ACTIVE:
            following = self._next(now)
            if following is None:
                return
            self._waiting.remove(following)
            self._begin(following, now)

    def _next(self, now: float) -> Fetch | None:
        """Return the waiting transfer whose turn it is."""
        under_way = Counter(active.peer for active, _ in self._active)
        free = (fetch for fetch in self._waiting if self._may_begin(fetch, under_way, now))
        return min(free, key=lambda fetch: under_way[fetch.peer], default=None)

    def _may_begin(self, fetch: Fetch, under_way: Counter[DeviceId], now: float) -> bool:
        pause = self._stalls.get(fetch.peer)
        if under_way[fetch.peer] >= _ACTIVE_OF_PEER or (pause is not None and now < pause.until):
            return False
        return not any(fetch.clashes_with(active) for active, _ in self._active)

    def _begin(self, fetch: Fetch, now: float) -> None:
        if not fetch.future.set_running_or_notify_cancel():
            return
        try:
            receiver = BlockReceiver(
                fetch.offer,
                fetch.destination,
                now=now,
                deadline=fetch.deadline,
                patience=self._patience,
                elsewhere=fetch.elsewhere,
            )
        except OSError as error:
            fetch.fail(f"cannot read {fetch.destination}: {error}")
            return
        if fetch.shares:
            receiver.share()
        if not self._connected:
            receiver.disconnected()
        self._active.append((fetch, receiver))

    def _settle(self, fetch: Fetch, receiver: BlockReceiver, now: float) -> None:
        outcome = receiver.outcome
        if outcome is None:
            return
        self._active.remove((fetch, receiver))
        if isinstance(outcome, FetchedFile):
            self._stalls.pop(fetch.peer, None)
            fetch.future.set_result(outcome.path)
            return
        reason = outcome.reason
        if outcome.error is StalledError:
            reason += self._note_stall(fetch.peer, now)
            self._end_all_of(fetch.peer, reason)
        fetch.fail(reason, outcome.error)

    def _end_all_of(self, peer: DeviceId, reason: str) -> None:
        for fetch in [item for item in self._waiting if item.peer == peer]:
            self._waiting.remove(fetch)
            fetch.fail(reason, StalledError)
        for fetch, receiver in [item for item in self._active if item[0].peer == peer]:
            self._active.remove((fetch, receiver))
            receiver.abandon(reason, StalledError)
            fetch.fail(reason, StalledError)

    def _note_stall(self, peer: DeviceId, now: float) -> str:
        count = self._stalls[peer].count + 1 if peer in self._stalls else 1
        seconds = min(_SHORTEST_PAUSE_SECONDS * 2.0 ** min(count - 1, 10), _LONGEST_PAUSE_SECONDS)
        self._stalls[peer] = _Stalls(count, now + seconds)
        return f" ({count} in a row from {peer}, whose next one waits {seconds:.0f} s)"

"""Which transfers are under way and which wait; no thread, no network, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from schemas.offers import BlockData, BlockRequest, Offer
from schemas.values import DeviceId
from transport.block_receiver import BlockReceiver, Fetched
from transport.errors import BlockError

_MAX_ACTIVE = 4
_MAX_WAITING = 1_000


@dataclass(frozen=True)
class Fetch:
    """What is wanted, from whom, until when (seconds on the caller's clock)."""

    offer: Offer
    destination: Path
    peer: DeviceId
    deadline: float
    future: Future[Path] = field(default_factory=Future)

    def clashes_with(self, other: Fetch) -> bool:
        """Say whether both would write one file, or take each other's blocks."""
        return self.destination == other.destination or (
            (self.peer, self.offer.digest) == (other.peer, other.offer.digest)
        )

    def fail(self, reason: str) -> None:
        """End without the data, unless it has ended."""
        if not self.future.done():
            self.future.set_exception(BlockError(reason))


class Fetches:
    """At most four transfers at once; the others wait in turn. Every one of them ends."""

    def __init__(self) -> None:
        self._waiting: list[Fetch] = []
        self._active: list[tuple[Fetch, BlockReceiver]] = []

    def add(self, fetch: Fetch) -> None:
        """Take a transfer over; it fails at once when too many wait."""
        if len(self._waiting) < _MAX_WAITING:
            self._waiting.append(fetch)
        else:
            fetch.fail(f"{_MAX_WAITING} transfers wait already; offer again later")

    def requests(self, now: float) -> Iterator[tuple[DeviceId, BlockRequest]]:
        """Begin and end what is due, and return what to ask of whom."""
        self._admit(now)
        for fetch, receiver in list(self._active):
            for request in receiver.requests(now):
                yield fetch.peer, request
            self._settle(fetch, receiver)

    def deliver(self, peer: DeviceId, label: BlockData, block: bytes, now: float) -> None:
        """Hand a block to the transfer that wants it."""
        for fetch, receiver in list(self._active):
            if (fetch.peer, fetch.offer.digest) == (peer, label.digest):
                receiver.receive(label, block, now)
                self._settle(fetch, receiver)

    def reconnected(self, now: float) -> None:
        """Let every transfer ask again for what was under way."""
        for _, receiver in self._active:
            receiver.reconnected(now)

    def next_time(self, now: float) -> float:
        """Return when `requests` should be called, if nothing arrives before."""
        times = [receiver.next_time(now) for _, receiver in self._active]
        times += [fetch.deadline for fetch in self._waiting]
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
        for fetch in list(self._waiting):
            clashes = any(fetch.clashes_with(active) for active, _ in self._active)
            if len(self._active) < _MAX_ACTIVE and not clashes:
                self._waiting.remove(fetch)
                self._begin(fetch, now)
            elif now >= fetch.deadline:
                self._waiting.remove(fetch)
                fetch.fail("deadline: it was still waiting for other transfers; offer again")

    def _begin(self, fetch: Fetch, now: float) -> None:
        if not fetch.future.set_running_or_notify_cancel():
            return
        try:
            receiver = BlockReceiver(
                fetch.offer, fetch.destination, now=now, deadline=fetch.deadline
            )
        except OSError as error:
            fetch.fail(f"cannot read {fetch.destination}: {error}")
        else:
            self._active.append((fetch, receiver))

    def _settle(self, fetch: Fetch, receiver: BlockReceiver) -> None:
        if receiver.outcome is None:
            return
        self._active.remove((fetch, receiver))
        if isinstance(receiver.outcome, Fetched):
            fetch.future.set_result(receiver.outcome.path)
        else:
            fetch.fail(receiver.outcome.reason)

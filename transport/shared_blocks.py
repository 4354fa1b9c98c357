"""Blocks that several devices fetch at the same time, sent once to all of them.

The rules:

- A device that listens on the topic of a file says in each request from which block on it lacks
  every one. A block that another listener lacks too goes to all; any other goes to who asked.
- A listener has what went to all while it listened: its request for that is answered by what is on
  its way. The request repeats what did not come, and that goes to this device alone. From then on
  it counts for having none of what went before.
- What a listener still lacks is known from its last request, so it costs some bytes where it is
  out of date, and never a block.
- Who fetches a file anew begins with the list of its blocks, and then has nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fleetledger.schemas.offers import BlockRequest
from fleetledger.schemas.values import DeviceId, Digest

_FORGOTTEN_SECONDS = 30.0
"""After which a device that asks for nothing listens no more, and a file has no listeners."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Blocks of one message, which follow each other; `to_all` says to whom it goes."""

    first: int
    count: int
    to_all: bool


@dataclass(slots=True)
class _Listener:
    lacks_from: int
    since: float = float("inf")
    """Number of the last message to all that it was not given; infinity until it has the list of
    blocks, without which it takes none."""
    heard: float = 0.0
    """When it asked last, in seconds."""
    until: float = float("inf")
    """Number of the last message to all that it was given."""
    asked: set[int] = field(default_factory=set)
    """Blocks that were not sent since."""


class Audience:
    """Devices that listen for the blocks of one file, and what they were sent."""

    def __init__(self) -> None:
        self.heard = 0.0
        """When somebody asked last, in seconds."""
        self._listeners: dict[DeviceId, _Listener] = {}
        self._sent: dict[int, int] = {}
        """By block the number of the last message to all that had it."""
        self._count = 0
        self._tidied = 0.0

    def note(self, peer: DeviceId, request: BlockRequest, now: float) -> None:
        """Learn from a request what a device lacks."""
        self.heard = now
        if now - self._tidied > _FORGOTTEN_SECONDS:
            self._tidied, oldest = now, now - _FORGOTTEN_SECONDS
            for name in [name for name, one in self._listeners.items() if one.heard < oldest]:
                del self._listeners[name]
        if request.section == "list":
            self._listeners.pop(peer, None)
        listener = self._listeners.get(peer)
        if request.lacks_from is None:
            if listener is not None:
                listener.until, listener.heard = min(listener.until, self._count), now
                listener.asked.clear()
            return
        if listener is None:
            listener = self._listeners[peer] = _Listener(request.lacks_from)
        listener.lacks_from, listener.heard = request.lacks_from, now
        if request.section == "list":
            return
        listener.since = min(listener.since, self._count)
        if any(self._given(listener, index) for index in request.indices[: request.repeated]):
            listener.since = self._count
        listener.asked.update(i for i in request.indices if not self._given(listener, i))

    def has_list(self, peer: DeviceId) -> None:
        """Note that a device was sent what it asked for of the list of blocks."""
        listener = self._listeners.get(peer)
        if listener is not None:
            listener.since = self._count

    def runs(self, peer: DeviceId, request: BlockRequest, most: int) -> Iterator[BlockRun]:
        """Yield what to send for a request, at most so many blocks together.

        Each run is decided when it is asked for, and counts as sent then.
        """
        at, indices = 0, request.indices
        while at < len(indices):
            to_all = self._goes_to_all(peer, request, at)
            if to_all is None:
                at += 1
                continue
            end = at + 1
            while (
                end < len(indices)
                and indices[end] == indices[end - 1] + 1
                and indices[end] % most
                and self._goes_to_all(peer, request, end) == to_all
            ):
                end += 1
            self._note_sent(peer, indices[at:end], to_all=to_all)
            yield BlockRun(indices[at], end - at, to_all)
            at = end

    def _goes_to_all(self, peer: DeviceId, request: BlockRequest, at: int) -> bool | None:
        """Return to whom a block of a request goes; None if it is on its way."""
        if at < request.repeated:
            return False
        index, listener = request.indices[at], self._listeners.get(peer)
        if listener is not None and self._given(listener, index):
            return None
        if request.lacks_from is None:
            return False
        return any(
            one.since <= self._count
            and (index >= one.lacks_from or index in one.asked)
            and not self._given(one, index)
            for name, one in self._listeners.items()
            if name != peer and one.until > self._count
        )

    def _given(self, listener: _Listener, index: int) -> bool:
        return listener.since < self._sent.get(index, 0) <= listener.until

    def _note_sent(self, peer: DeviceId, indices: Sequence[int], *, to_all: bool) -> None:
        if not to_all:
            listener = self._listeners.get(peer)
            if listener is not None:
                listener.asked.difference_update(indices)
            return
        self._count += 1
        self._sent.update(dict.fromkeys(indices, self._count))
        for one in self._listeners.values():
            one.asked.difference_update(indices)


class SharedBlocks:
    """Audience of each file that devices fetch."""

    def __init__(self) -> None:
        self._audiences: dict[Digest, Audience] = {}

    def audience(self, digest: Digest, now: float) -> Audience:
        """Return the audience of a file, and forget those that have gone."""
        oldest = now - _FORGOTTEN_SECONDS
        for old in [key for key, one in self._audiences.items() if one.heard < oldest]:
            if old != digest:
                del self._audiences[old]
        return self._audiences.setdefault(digest, Audience())

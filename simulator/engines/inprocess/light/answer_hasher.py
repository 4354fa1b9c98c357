"""Answers are hashed as they would be offered, and not kept; large ones beside what trains.

Large ones are added to their sum beside it, too, in their order.

Nothing is compressed: digests are of plain bodies, and nothing travels.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import Digest

LARGE_BYTES = 1 << 20
"""From here on a body is hashed by a thread: hashing leaves Python to others, but to come back to
it may take a thread as long as a megabyte takes."""
_MOST_THREADS = 4
_WAITING = 2
"""Bodies by thread that are kept at a time, to be hashed; what is more is hashed at once."""


class HashedAnswer(NamedTuple):
    """What is said of a payload."""

    digest: Digest
    size: int

    @property
    def offer(self) -> Offer | None:
        """What a message says of a payload that is too large to be attached.

        Nobody asks for its blocks, and the ledger does not name their list: it is not hashed, and
        the digest of the whole stands in its place, which is as long.
        """
        if self.size <= INLINE_LIMIT:
            return None
        return Offer(digest=self.digest, size=self.size, list_digest=self.digest)


class HashedPayloads:
    """Offers payloads that lie nowhere: whoever gets one is handed its bytes."""

    def offer(self, data: bytes) -> Offer:
        """Return what a message says of a payload that is too large to be attached."""
        offer = HashedAnswer(Digest.of(data), len(data)).offer
        assert offer is not None
        return offer


class Turns:
    """Does one work after the other in a thread of its own, where there is a core for it."""

    def __init__(self) -> None:
        self._alone = len(os.sched_getaffinity(0)) == 1
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def do(self, work: Callable[[], None]) -> None:
        """Have a work done after those before, of which two may wait; raise what one raised."""
        self.wait(_WAITING - 1)
        if self._alone:
            work()
            return
        self._pool = self._pool or ThreadPoolExecutor(1, "summing")
        self._waiting.append(self._pool.submit(work))

    def wait(self, most: int = 0) -> None:
        """Wait until so many works at most are left; raise what one raised."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class AnswerHasher:
    """Hashes lots of answers; what comes of them is given back in the order of the lots."""

    def __init__(self) -> None:
        self.summing = Turns()
        """Adds large answers to their sum."""
        self._threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)) - 1)
        self._pool: ThreadPoolExecutor | None = None
        self._lots: deque[list[HashedAnswer | Future[HashedAnswer]]] = deque()
        self._waiting: list[Future[HashedAnswer]] = []

    @property
    def is_ready(self) -> bool:
        """Whether `take` need not wait."""
        return all(isinstance(item, HashedAnswer) or item.done() for item in self._lots[0])

    def hash(self, bodies: Sequence[bytes]) -> None:
        """Hash a lot, or have it hashed."""
        self._lots.append([self._one(body) for body in bodies])

    def take(self) -> list[HashedAnswer]:
        """Return what came of the oldest lot."""
        lot = self._lots.popleft()
        return [item if isinstance(item, HashedAnswer) else item.result() for item in lot]

    def close(self) -> None:
        """End the threads."""
        self.summing.close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _one(self, body: bytes) -> HashedAnswer | Future[HashedAnswer]:
        if len(body) < LARGE_BYTES:
            return hashed(body)
        self._waiting = [item for item in self._waiting if not item.done()]
        if len(self._waiting) >= _WAITING * self._threads:
            return hashed(body)
        self._pool = self._pool or ThreadPoolExecutor(self._threads, "hashing")
        self._waiting.append(self._pool.submit(hashed, body))
        return self._waiting[-1]


def hashed(body: bytes) -> HashedAnswer:
    """Return digest and size of an answer."""
    return HashedAnswer(Digest.of(body), len(body))

"""Blocks that were asked for and wait to be sent, in turn between those who ask."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator

from schemas.values import DeviceId
from transport.errors import NotConnectedError, QueueFullError, TransportError
from transport.interface import OutgoingMessage

log = logging.getLogger("transport.blocks")

_MAX_REQUESTS = 1_024
_REQUESTS_OF_PEER = 16
_MESSAGES_PER_TURN = 16


class BlockReplies:
    """A bounded number of running answers; each is read a message at a time."""

    def __init__(self) -> None:
        self._running: deque[tuple[DeviceId, Iterator[OutgoingMessage]]] = deque()
        self._of_peer: Counter[DeviceId] = Counter()
        self._held: OutgoingMessage | None = None

    def __bool__(self) -> bool:
        return self._held is not None or bool(self._running)

    @property
    def blocked(self) -> bool:
        """Whether the connection's queue was full the last time."""
        return self._held is not None

    def add(self, peer: DeviceId, messages: Iterator[OutgoingMessage]) -> bool:
        """Queue an answer; return False when too many wait already: it will be asked for again.

        A peer has a share of its own, so that who asks too much leaves room for the others.
        """
        if len(self._running) >= _MAX_REQUESTS or self._of_peer[peer] >= _REQUESTS_OF_PEER:
            return False
        self._running.append((peer, messages))
        self._of_peer[peer] += 1
        return True

    def send_some(self, publish: Callable[[OutgoingMessage], None]) -> None:
        """Send a few messages, until the connection takes no more."""
        for _ in range(_MESSAGES_PER_TURN):
            self._held = self._held or self._next()
            if self._held is None:
                return
            try:
                publish(self._held)
            except QueueFullError:
                return
            except NotConnectedError:
                self._running.clear()
                self._of_peer.clear()
            except TransportError as error:
                log.warning("block not sent: %s", error)
            self._held = None

    def _next(self) -> OutgoingMessage | None:
        while self._running:
            peer, answer = self._running.popleft()
            message = _read(answer)
            if message is not None:
                self._running.append((peer, answer))
                return message
            self._of_peer[peer] -= 1
            if not self._of_peer[peer]:
                del self._of_peer[peer]
        return None


def _read(answer: Iterator[OutgoingMessage]) -> OutgoingMessage | None:
    try:
        return next(answer, None)
    except TransportError as error:
        log.warning("answer ends early: %s", error)
        return None

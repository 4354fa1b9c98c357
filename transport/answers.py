"""Blocks that were asked for and wait to be sent, in turn between those who ask."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator

from transport.errors import NotConnectedError, QueueFullError, TransportError
from transport.interface import Outgoing

log = logging.getLogger("transport.blocks")

_MAX_REQUESTS = 256
_MESSAGES_PER_TURN = 16


class Answers:
    """A bounded number of running answers; each is read a message at a time."""

    def __init__(self) -> None:
        self._running: deque[Iterator[Outgoing]] = deque()
        self._held: Outgoing | None = None

    def __bool__(self) -> bool:
        return self._held is not None or bool(self._running)

    @property
    def blocked(self) -> bool:
        """Whether the connection's queue was full the last time."""
        return self._held is not None

    def add(self, messages: Iterator[Outgoing]) -> bool:
        """Queue an answer; return False when too many wait already: it will be asked for again."""
        if len(self._running) >= _MAX_REQUESTS:
            return False
        self._running.append(messages)
        return True

    def send_some(self, publish: Callable[[Outgoing], None]) -> None:
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
            except TransportError as error:
                log.warning("block not sent: %s", error)
            self._held = None

    def _next(self) -> Outgoing | None:
        while self._running:
            answer = self._running.popleft()
            try:
                message = next(answer, None)
            except TransportError as error:
                log.warning("answer ends early: %s", error)
                continue
            if message is not None:
                self._running.append(answer)
                return message
        return None

"""Blocks that were asked for and wait to be sent, in turn between those who ask."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fleetledger.schemas.values import DeviceId
from fleetledger.transport.errors import NotConnectedError, QueueFullError, TransportError
from fleetledger.transport.interface import OutgoingMessage

log = logging.getLogger("transport.blocks")

_BLOCKS_OF_PEER = 256
"""Two transfers, each with 64 blocks under way, all of which were asked for twice."""
_MAX_BLOCKS = 64 * _BLOCKS_OF_PEER
_MESSAGES_PER_TURN = 16


@dataclass(frozen=True, slots=True)
class _Answer:
    messages: Iterator[OutgoingMessage]
    blocks: int


class BlockReplies:
    """A bounded number of answers, read a message at a time, one of each peer after the other.

    They are bounded by the blocks that were asked for, in however many requests.
    """

    def __init__(self) -> None:
        self._of_peer: dict[DeviceId, deque[_Answer]] = {}
        self._turns: deque[DeviceId] = deque()
        """Who has answers waiting, the next one first."""
        self._waiting: Counter[DeviceId] = Counter()
        """Blocks by peer."""
        self._held: OutgoingMessage | None = None

    def __bool__(self) -> bool:
        return self._held is not None or bool(self._turns)

    @property
    def blocked(self) -> bool:
        """Whether the connection's queue was full the last time."""
        return self._held is not None

    def add(self, peer: DeviceId, messages: Iterator[OutgoingMessage], blocks: int = 1) -> bool:
        """Queue an answer; return False when too much waits already: it will be asked for again.

        A peer has a share of its own, so that who asks too much leaves room for the others.
        """
        full = self._waiting.total() + blocks > _MAX_BLOCKS
        if full or self._waiting[peer] + blocks > _BLOCKS_OF_PEER:
            return False
        if peer not in self._of_peer:
            self._of_peer[peer] = deque()
            self._turns.append(peer)
        self._of_peer[peer].append(_Answer(messages, blocks))
        self._waiting[peer] += blocks
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
                self._of_peer.clear()
                self._turns.clear()
                self._waiting.clear()
            except TransportError as error:
                log.warning("block not sent: %s", error)
            self._held = None

    def _next(self) -> OutgoingMessage | None:
        while self._turns:
            peer = self._turns.popleft()
            message = self._next_of(peer)
            if message is not None:
                self._turns.append(peer)
                return message
            del self._of_peer[peer], self._waiting[peer]
        return None

    def _next_of(self, peer: DeviceId) -> OutgoingMessage | None:
        answers = self._of_peer[peer]
        while answers:
            message = _read(answers[0].messages)
            if message is not None:
                return message
            self._waiting[peer] -= answers.popleft().blocks
        return None


def _read(answer: Iterator[OutgoingMessage]) -> OutgoingMessage | None:
    try:
        return next(answer, None)
    except TransportError as error:
        log.warning("answer ends early: %s", error)
        return None

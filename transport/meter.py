"""Counting what crosses: payload bytes and messages, up and down, by kind of topic.

"Up" is what this connection publishes and "down" what it receives. Topics and MQTT framing are not
counted, so the numbers are the same in memory and over any broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages and payload bytes in both directions."""

    messages_up: int = 0
    bytes_up: int = 0
    messages_down: int = 0
    bytes_down: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + theirs for mine, theirs in zip(self._all, other._all, strict=True)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(mine - theirs for mine, theirs in zip(self._all, other._all, strict=True)))

    @property
    def _all(self) -> tuple[int, int, int, int]:
        return self.messages_up, self.bytes_up, self.messages_down, self.bytes_down


@lru_cache(maxsize=4096)
def topic_class(topic: str) -> str:
    """Name the kind of a topic: `up/msg`, `down/blk`, `all/state`; without fleet and device."""
    levels = topic.split("/")[3:]
    if len(levels) >= 3 and levels[0] in ("up", "down"):
        return f"{levels[0]}/{levels[2]}"
    return "/".join(levels[:2]) or "other"


_UP, _DOWN = 0, 2
"""Where the counts of a direction begin."""


@dataclass
class Meter:
    """Thread-safe counters of one connection; `classify` turns a topic into the key to count by."""

    classify: Callable[[str], str] = topic_class
    _numbers: dict[str, list[int]] = field(default_factory=dict)
    """By kind of topic what `Counts` has."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, topic: str, size: int) -> None:
        """Count one published payload of `size` bytes."""
        self._add(topic, _UP, size)

    def received(self, topic: str, size: int) -> None:
        """Count one received payload of `size` bytes."""
        self._add(topic, _DOWN, size)

    def total(self) -> Counts:
        """Return the sum over all kinds of topic."""
        return sum(self.by_class().values(), Counts())

    def by_class(self) -> dict[str, Counts]:
        """Return a copy of the counts per kind of topic."""
        with self._lock:
            return {key: Counts(*numbers) for key, numbers in self._numbers.items()}

    def _add(self, topic: str, at: int, size: int) -> None:
        key = self.classify(topic)
        with self._lock:
            numbers = self._numbers.setdefault(key, [0, 0, 0, 0])
            numbers[at] += 1
            numbers[at + 1] += size

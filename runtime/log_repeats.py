"""Lines of a log that would be said too often: the first few are said, the others are counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")
_MOST_WINDOWS = 4096
"""Kinds of lines that are remembered at a time; their names may come from devices."""
_MOST_DEVICES = 100_000


@dataclass
class HeldBack:
    """Lines of one kind that were not said, in a row."""

    began: float
    said: int = 0
    count: int = 0
    devices: set[str] = field(default_factory=set)
    first: int | None = None
    """Ledger index of the first of them that has one."""
    last: int | None = None
    level: int = 0
    """The highest among them."""

    def add(self, level: int, device: str | None, index: int | None) -> None:
        """Count one more line."""
        self.count += 1
        self.level = max(self.level, level)
        if device is not None and len(self.devices) < _MOST_DEVICES:
            self.devices.add(device)
        if index is not None:
            self.first = index if self.first is None else self.first
            self.last = index

    @property
    def text(self) -> str:
        """What is told of them: `412 more, of 390 devices (#501 to #913)`."""
        of = f", of {len(self.devices)} devices" if len(self.devices) > 1 else ""
        return f"{self.count} more{of}{self._where}"

    @property
    def _where(self) -> str:
        if self.first is None:
            return ""
        return (
            f" (#{self.first})" if self.first == self.last else f" (#{self.first} to #{self.last})"
        )


class Repeats(Generic[Key]):
    """Lets at most `lines` lines of a kind through in `seconds`."""

    def __init__(self, lines: int, seconds: float) -> None:
        self._lines = lines
        self._seconds = seconds
        self._windows: dict[Key, HeldBack] = {}
        self._due: float | None = None
        """When the first of those that hold lines back is over."""

    def lets(
        self,
        key: Key,
        now: float,
        level: int,
        device: str | None = None,
        index: int | None = None,
    ) -> bool:
        """Whether a line may be said; it is counted where not. `now` is any clock in seconds."""
        window = self._windows.get(key)
        if window is None or (not window.count and now - window.began >= self._seconds):
            if len(self._windows) >= _MOST_WINDOWS:
                self._forget(now)
            window = self._windows[key] = HeldBack(now)
        if window.said < self._lines:
            window.said += 1
            return True
        window.add(level, device, index)
        end = window.began + self._seconds
        self._due = end if self._due is None else min(self._due, end)
        return False

    @property
    def holds_back(self) -> bool:
        """Whether there are lines of which nothing was said yet."""
        return self._due is not None

    def over(self, now: float) -> Iterator[tuple[Key, HeldBack]]:
        """Yield what was held back in windows that are over, and begin anew."""
        if self._due is None or now < self._due:
            return
        ended = [
            key
            for key, window in self._windows.items()
            if window.count and now - window.began >= self._seconds
        ]
        yield from [(key, self._windows.pop(key)) for key in ended]
        rest = [window.began for window in self._windows.values() if window.count]
        self._due = min(rest) + self._seconds if rest else None

    def _forget(self, now: float) -> None:
        """Make room: what is over goes first; what holds nothing back goes next."""
        idle = [key for key, window in self._windows.items() if not window.count]
        old = [key for key in idle if now - self._windows[key].began >= self._seconds]
        for key in old or idle:
            del self._windows[key]

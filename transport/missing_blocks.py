"""Blocks that are missing, with the times at which they were requested."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from fleetledger.transport.pacing import Pacer, RequestedBlock


class MissingBlocks:
    """The missing blocks of one section; each is new, or asked for and not yet here.

    Those that were asked for are kept in the order of asking, which is that of becoming overdue:
    what is decided looks at the first ones alone, however many are under way.
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self._new = deque(indices)
        """Blocks to be asked for; those that came unasked are still among them."""
        self._missing = set(self._new)
        self._asked: dict[int, RequestedBlock] = {}
        """By index; who was asked for again comes last."""
        self.untouched_from = self._new[-1] + 1 if self._new else 0
        """Block from which on all are missing and nobody was asked for one."""
        for index in reversed(self._new):
            if index != self.untouched_from - 1:
                break
            self.untouched_from = index

    @property
    def new(self) -> tuple[int, ...]:
        """Blocks that nobody was asked for yet."""
        return tuple(index for index in self._new if index in self._missing)

    def __len__(self) -> int:
        return len(self._missing)

    def choose(self, pacer: Pacer, now: float, most: int) -> list[int]:
        """Return what to ask for now, at most `most`: first the overdue, then new blocks.

        New ones are asked for several at a time, as soon as there is room for a quarter of the
        window: to ask and to be asked costs about as much as a block.
        """
        overdue = self._overdue(pacer.retry_after, now)
        free = pacer.window - (len(self._asked) - len(overdue))
        again = overdue[: max(min(free, most), 0)]
        enough = bool(again) or free >= self._worth_asking(pacer)
        count = min(free, most, len(again) + self._count_of_new) - len(again) if enough else 0
        fresh = [self._next_new() for _ in range(count)]
        for index in again:
            del self._asked[index]
        repeated = RequestedBlock(now, pacer.delivered, first=False)
        self._asked.update(dict.fromkeys(again, repeated))
        self._asked.update(dict.fromkeys(fresh, RequestedBlock(now, pacer.delivered, first=True)))
        return again + fresh

    def arrived(self, index: int) -> RequestedBlock | None:
        """Strike out a block; return when it was asked for, or None if it was not."""
        asked = self._asked.pop(index, None)
        if asked is not None:
            self._missing.remove(index)
        return asked

    def brought(self, index: int) -> bool:
        """Strike out a block that came without being asked for, or by another way.

        Returns False for one that is not missing.
        """
        if index not in self._missing:
            return False
        self._missing.remove(index)
        self._asked.pop(index, None)
        self.untouched_from = max(self.untouched_from, index + 1)
        return True

    def repeated(self, indices: Iterable[int]) -> int:
        """Return how many of the blocks that were just chosen were asked for before."""
        return sum(not self._asked[index].first for index in indices)

    def lapse(self, pacer: Pacer, now: float) -> None:
        """Make everything overdue that was asked for; a late answer is still welcome."""
        at = now - pacer.retry_after
        for index, asked in self._asked.items():
            self._asked[index] = RequestedBlock(at, asked.delivered, first=False)

    def next_time(self, pacer: Pacer, now: float) -> float:
        """Return when `choose` will next have something, or infinity if only arrivals help.

        In a window that has become narrower, so many have to be overdue that there is room for one.
        """
        if self._count_of_new and pacer.window - len(self._asked) >= self._worth_asking(pacer):
            return now
        too_many = max(0, len(self._asked) - pacer.window)
        last = next(islice(self._asked.values(), too_many, None), None)
        return float("inf") if last is None else last.at + pacer.retry_after

    def _overdue(self, retry_after: float, now: float) -> list[int]:
        """Return the blocks that were asked for too long ago, the longest first."""
        overdue = []
        for index, asked in self._asked.items():
            # The same sum as in `next_time`: by a difference, rounding might call it due, not ask.
            if asked.at + retry_after > now:
                break
            overdue.append(index)
        return overdue

    def _worth_asking(self, pacer: Pacer) -> int:
        """Return for how many new blocks there has to be room before they are asked for."""
        return max(1, min(pacer.window // 4, self._count_of_new))

    @property
    def _count_of_new(self) -> int:
        return len(self._missing) - len(self._asked)

    def _next_new(self) -> int:
        index = self._new.popleft()
        while index not in self._missing:
            index = self._new.popleft()
        self.untouched_from = max(self.untouched_from, index + 1)
        return index

"""Where the shards of a ledger begin, and which of them an entry or a root belongs to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from fleetledger.schemas.proofs.shards import SHARD_BEGAN

FIRSTS = f"SELECT idx FROM entry WHERE kind = '{SHARD_BEGAN}' ORDER BY idx"  # noqa: S608 - constant
"""Reads the first entries of all shards but the first one."""
SHARD_INDEX = "entry_shard"
"""The index by which they are found; a ledger that has none has one shard."""


@dataclass(frozen=True)
class LogShard:
    """One shard: entries from `first` on, before `end`."""

    number: int
    first: int
    end: int | None
    """Index of the next shard's first entry; None for the newest shard."""

    def leaves_at(self, size: int) -> int:
        """Return how many leaves the shard's tree has where the ledger has `size` entries."""
        return (size if self.end is None else min(size, self.end)) - self.first


@dataclass(frozen=True)
class LogShards:
    """All shards of a ledger; one that never began another has one."""

    firsts: tuple[int, ...] = (0,)
    """Index of each shard's first entry, beginning with 0."""

    def __iter__(self) -> Iterator[LogShard]:
        return (self.numbered(number) for number in range(len(self.firsts)))

    def numbered(self, number: int) -> LogShard:
        """Return a shard by its number; the newest one's is -1, too."""
        number %= len(self.firsts)
        ends = (*self.firsts[1:], None)
        return LogShard(number, self.firsts[number], ends[number])

    def of_entry(self, index: int) -> LogShard:
        """Return the shard that an entry is in."""
        return self.numbered(bisect_right(self.firsts, index) - 1)

    def of_size(self, size: int) -> LogShard:
        """Return the shard that was the newest one where the ledger had `size` entries."""
        return self.numbered(max(0, bisect_left(self.firsts, size) - 1))

    def up_to(self, size: int) -> LogShards:
        """Return the shards that there were where the ledger had `size` entries."""
        return LogShards(self.firsts[: self.of_size(size).number + 1])

    def nodes_before(self, number: int, level: int) -> int:
        """Return how many complete subtrees of a level the shards before one have."""
        pairs = zip(self.firsts[:number], self.firsts[1:], strict=False)
        return sum((end - first) >> level for first, end in pairs)

"""The tree's inner nodes that are stored, so that a proof about a long ledger costs a few reads.

Of the complete subtrees only those of every fourth level are kept: one row for 16 entries, one
more for 256, and so on. A level in between is made of at most 8 stored hashes in one read. Rows of
a level are counted through all shards of a ledger; here positions are those of one shard's tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetledger.coordinator.ledger.shards import LogShards
from fleetledger.schemas.proofs.tree import Frontier, node_hash

STRIDE = 4
"""Levels from one that is stored to the next."""
_CHILDREN = 1 << STRIDE

Query = Callable[..., Sequence[Sequence[Any]]]
"""Runs one statement with its parameters and returns all rows."""

_LEAVES = "SELECT leaf FROM entry WHERE idx >= ? AND idx < ? ORDER BY idx"
_NODES = "SELECT hash FROM node WHERE level = ? AND position >= ? AND position < ?"
INSERT_NODE = "INSERT INTO node (level, position, hash) VALUES (?, ?, ?)"


_REMEMBERED = 1 << 16
"""Subtrees whose roots stay in memory: some megabytes."""


@dataclass(frozen=True)
class StoredNodes:
    """Reads the roots of a shard's complete subtrees; `query` reads the ledger's database."""

    query: Query
    shards: LogShards = field(default_factory=LogShards)
    number: int = 0
    """The shard's."""
    _known: dict[tuple[int, int], bytes] = field(default_factory=dict, compare=False, repr=False)
    """Roots that were asked for: complete subtrees never change, and proofs share most of them."""

    def subtree(self, level: int, position: int) -> bytes:
        """Return the root over leaves position * 2^level to (position + 1) * 2^level - 1.

        Raises `LookupError` where the ledger does not hold all of them.
        """
        known = self._known.get((level, position))
        if known is not None:
            return known
        above = level % STRIDE
        root = self._folded(level - above, position << above, 1 << above)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[level, position] = root
        return root

    def keep(self, first: int, leaves: Sequence[bytes]) -> None:
        """Remember the leaves from `first` on: what was just committed is asked for next."""
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known.update(((0, index), leaf) for index, leaf in enumerate(leaves, first))

    def frontier(self, size: int) -> Frontier:
        """Return the right edge of the tree over the first `size` leaves, in O(log n) reads.

        Raises `LookupError` where nodes or leaves are missing.
        """
        levels = (level for level in reversed(range(size.bit_length())) if size >> level & 1)
        return Frontier(
            size, tuple(self.subtree(level, size >> level + 1 << 1) for level in levels)
        )

    def stored(self, level: int, position: int) -> bytes:
        """Return what a stored node has to be, made of the stored level below it."""
        return self._folded(level - STRIDE, position * _CHILDREN, _CHILDREN)

    def missing(self, old_size: int, size: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield level, row and hash of the nodes that growing from `old_size` leaves completes.

        Whoever iterates stores each before taking the next: higher levels are made of them.
        """
        level = STRIDE
        while size >> level:
            for position in range(old_size >> level, size >> level):
                yield level, self.row_of(level, position), self.stored(level, position)
            level += STRIDE

    def row_of(self, level: int, position: int) -> int:
        """Return where a stored node of this shard is among those of all shards."""
        return self.shards.nodes_before(self.number, level) + position

    def missing_or_wrong(
        self, size: int, found: dict[tuple[int, int], str]
    ) -> tuple[int, int, str, str] | None:
        """Return level, row, expected and found hash of the first node that is not right.

        The leaves are taken as they are; every stored level is held against the one below it. Those
        of a shard of so many leaves are taken out of `found`, which has hashes by level and row.
        """
        level = STRIDE
        while size >> level:
            for position in range(size >> level):
                expected, row = self.stored(level, position).hex(), self.row_of(level, position)
                held = found.pop((level, row), "none")
                if held != expected:
                    return level, row, expected, held
            level += STRIDE
        return None

    def _folded(self, level: int, start: int, count: int) -> bytes:
        hashes = self._row(level, start, count)
        while len(hashes) > 1:
            hashes = [node_hash(*hashes[n : n + 2]) for n in range(0, len(hashes), 2)]
        return hashes[0]

    def _row(self, level: int, start: int, count: int) -> list[bytes]:
        """Return so many hashes of a stored level, from memory where all of them are there."""
        known = [self._known.get((level, place)) for place in range(start, start + count)]
        if None not in known:
            return [one for one in known if one is not None]
        if level == 0:
            first = self.shards.firsts[self.number] + start
            rows = self.query(_LEAVES, first, first + count)
        else:
            row = self.row_of(level, start)
            rows = self.query(f"{_NODES} ORDER BY position", level, row, row + count)
        if len(rows) != count:
            raise LookupError(f"level {level} of the tree: {len(rows)} of {count} from {start} on")
        return [bytes(row[0]) for row in rows]


def wrong_node(query: Query, shards: LogShards, size: int) -> tuple[int, int, str, str] | None:
    """Return level, row, expected and found hash of the first stored node that is not right."""
    rows = query("SELECT level, position, hash FROM node ORDER BY level, position")
    found = {(row[0], row[1]): bytes(row[2]).hex() for row in rows}
    for shard in shards:
        nodes = StoredNodes(query, shards, shard.number)
        wrong = nodes.missing_or_wrong(shard.leaves_at(size), found)
        if wrong is not None:
            return wrong
    for (level, row), held in found.items():
        return level, row, "none", held
    return None

"""The tree's inner nodes that are stored, so that a proof about a long ledger costs a few reads.

Of the complete subtrees only those of every fourth level are kept: one row for 16 entries, one
more for 256, and so on. A level in between is made of at most 8 stored hashes in one read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from fleetledger.schemas.proofs.tree import Frontier, node_hash

STRIDE = 4
"""Levels from one that is stored to the next."""
_CHILDREN = 1 << STRIDE

Query = Callable[..., Sequence[Sequence[Any]]]
"""Runs one statement with its parameters and returns all rows."""

_NODES = (
    "SELECT hash FROM node WHERE level = ? AND position >= ? AND position < ? ORDER BY position"
)
INSERT_NODE = "INSERT INTO node (level, position, hash) VALUES (?, ?, ?)"


_REMEMBERED = 1 << 16
"""Subtrees whose roots stay in memory: some megabytes."""


@dataclass(frozen=True)
class StoredNodes:
    """Reads the roots of the tree's complete subtrees; `query` reads the ledger's database."""

    query: Query
    leaves: Callable[[int, int], list[bytes]]
    """Returns the leaves with start <= index < stop that there are."""
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
        places = zip(repeat(0), range(first, first + len(leaves)))
        self._known.update(zip(places, leaves, strict=True))

    def forget(self) -> None:
        """Remember nothing: some of it was not committed."""
        self._known.clear()

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
        """Yield level, position and hash of the nodes that growing from `old_size` completes.

        The new leaves are kept before; higher levels are made of the nodes below.
        """
        level = STRIDE
        while size >> level:
            for position in range(old_size >> level, size >> level):
                found = self._known[level, position] = self.stored(level, position)
                yield level, position, found
            level += STRIDE

    def wrong(self, size: int) -> tuple[int, int, str, str] | None:
        """Return level, position, expected and found hash of the first node that is not right.

        The leaves are taken as they are; every stored level is held against the one below it.
        """
        rows = self.query("SELECT level, position, hash FROM node ORDER BY level, position")
        found = {(row[0], row[1]): bytes(row[2]).hex() for row in rows}
        for level in range(STRIDE, size.bit_length(), STRIDE):
            for position in range(size >> level):
                expected = self.stored(level, position).hex()
                held = found.pop((level, position), "none")
                if held != expected:
                    return level, position, expected, held
        for (level, position), held in found.items():
            return level, position, "none", held
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
            found = self.leaves(start, start + count)
        else:
            found = [bytes(row[0]) for row in self.query(_NODES, level, start, start + count)]
        if len(found) != count:
            raise LookupError(f"level {level} of the tree: {len(found)} of {count} from {start} on")
        return found

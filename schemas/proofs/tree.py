"""The hash over all entries: the Merkle tree of RFC 6962, section 2.1, grown at its right edge.

    leaf hash    SHA-256(0x00 || entry bytes)
    node hash    SHA-256(0x01 || left || right)
    root of n    node(root of the first k leaves, root of the rest), k the largest power of two < n
    root of 0    SHA-256 of nothing

A tree of n leaves is a row of complete subtrees, one per set bit of n, largest first. Their roots
(the frontier) are all that is needed to add leaves and to name the root in O(log n).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
"""Root of a tree without leaves."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one leaf (RFC 6962, 2.1: MTH({d(0)}))."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node over its two children."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class Frontier:
    """The right edge of a tree: number of leaves, and roots of its complete subtrees, large first.

    It never changes: growing gives a new one, so a group that could not be committed leaves no
    trace in the old one.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def grown(self, leaves: Iterable[bytes]) -> Frontier:
        """Return the frontier after `leaves` (leaf hashes, 32 bytes each) were added in order."""
        size, peaks = self.size, list(self.peaks)
        for leaf in leaves:
            peaks.append(leaf)
            size += 1
            # Each trailing zero bit of the new size closes one pair of equally large subtrees.
            for _ in range((size & -size).bit_length() - 1):
                right = peaks.pop()
                peaks[-1] = node_hash(peaks[-1], right)
        return Frontier(size, tuple(peaks))

    @property
    def root(self) -> bytes:
        """Root of the whole tree, 32 bytes."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

"""Consistency: that a log only grew between two sizes (RFC 9162, 2.1.4)."""

from __future__ import annotations

from pydantic import Field

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.proofs.inclusion import MAX_PATH, Size
from fleetledger.schemas.proofs.tree import EMPTY_ROOT, node_hash
from fleetledger.schemas.values import Digest


class ConsistencyProof(Strict):
    """The hashes from which the roots of both sizes follow, lowest first."""

    first: Size
    second: Size
    path: tuple[Digest, ...] = Field(max_length=MAX_PATH + 1)

    def check(self, first_root: Digest, second_root: Digest) -> None:
        """Raise `ProofError` unless the log with the second root begins with that of the first."""
        if self.first > self.second:
            raise ProofError(
                f"first: {self.first} is above the second size {self.second}; a log never shrinks"
            )
        if self.first in {0, self.second}:
            self._check_without_path(first_root, second_root)
            return
        found = self._roots(first_root)
        if found != (first_root, second_root):
            raise ProofError(
                f"path: gives the roots {found[0].short} and {found[1].short}, and the logs of "
                f"{self.first} and {self.second} entries have {first_root.short} and "
                f"{second_root.short}; history was changed between them, or the proof was altered"
            )

    def _check_without_path(self, first_root: Digest, second_root: Digest) -> None:
        if self.path:
            raise ProofError(
                f"path: {len(self.path)} hashes where none are needed, from {self.first} to "
                f"{count_of(self.second, 'entry', 'entries')}; the proof was altered"
            )
        expected = EMPTY_ROOT.hex() if self.first == 0 else second_root
        if first_root != expected:
            raise ProofError(
                f"root: {first_root.short} of {count_of(self.first, 'entry', 'entries')}, and "
                f"{expected[:12]} was expected; there are two histories"
            )

    def _roots(self, first_root: Digest) -> tuple[Digest, Digest]:
        """Return both roots as they follow from the path."""
        hashes = [bytes.fromhex(digest) for digest in self.path]
        if self.first & (self.first - 1) == 0:  # a complete tree is a node of the larger one
            hashes.insert(0, bytes.fromhex(first_root))
        if not hashes:
            raise self._wrong_length()
        place, last = self.first - 1, self.second - 1
        while place & 1:  # up to the node with which the first tree ends
            place, last = place >> 1, last >> 1
        first = second = hashes[0]
        for sibling in hashes[1:]:
            if last == 0:
                raise self._wrong_length()
            if place & 1 or place == last:
                first, second = node_hash(sibling, first), node_hash(sibling, second)
                while place and not place & 1:
                    place, last = place >> 1, last >> 1
            else:
                second = node_hash(second, sibling)
            place, last = place >> 1, last >> 1
        if last != 0:
            raise self._wrong_length()
        return Digest(first.hex()), Digest(second.hex())

    def _wrong_length(self) -> ProofError:
        return ProofError(
            f"path: {len(self.path)} hashes do not lead from a log of {self.first} to one of "
            f"{self.second}; the proof was altered"
        )

"""Inclusion: that an entry stands at an index of the log of a given size (RFC 9162, 2.1.3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.proofs.tree import node_hash
from fleetledger.schemas.values import Digest

MAX_PATH = 63
"""Hashes of a path in the largest log: its size stays below 2^63."""

Size = Annotated[int, Field(ge=0, lt=2**63)]
Path = Annotated[tuple[Digest, ...], Field(max_length=MAX_PATH)]


class InclusionProof(Strict):
    """The hashes beside the way from a leaf up to the root, lowest first."""

    index: Size
    """Of the leaf."""
    size: Size
    """Of the log to whose root the path leads."""
    path: Path

    def root(self, leaf: bytes) -> Digest:
        """Return the root that follows from a leaf hash (32 bytes).

        Raises `ProofError` where index, size and the length of the path do not fit together.
        """
        if self.index >= self.size:
            raise ProofError(
                f"index: {self.index} is no entry of a log of {self.size}; ask for a newer proof"
            )
        # The leaf's place among the nodes of a level, and the last place of that level.
        place, last, root = self.index, self.size - 1, leaf
        for sibling in map(bytes.fromhex, self.path):
            if last == 0:
                raise _wrong_length(self)
            if place & 1 or place == last:
                root = node_hash(sibling, root)
                while place and not place & 1:  # a last node without sibling moves up as it is
                    place, last = place >> 1, last >> 1
            else:
                root = node_hash(root, sibling)
            place, last = place >> 1, last >> 1
        if last != 0:
            raise _wrong_length(self)
        return Digest(root.hex())

    def check(self, leaf: bytes, root: Digest) -> None:
        """Raise `ProofError` unless the leaf hash is in the log with that root."""
        found = self.root(leaf)
        if found != root:
            raise ProofError(
                f"path: leads from entry {self.index} to the root {found.short}, and the log of "
                f"{self.size} has {root.short}; the entry is not in it, or the proof was altered"
            )


def _wrong_length(proof: InclusionProof) -> ProofError:
    return ProofError(
        f"path: {len(proof.path)} hashes do not lead from entry {proof.index} to the root of a log "
        f"of {proof.size}; the proof was altered"
    )

"""Log shards: a fleet's log goes on in a new tree, whose first entry says how the former one ended.

Entries are counted through all shards; the places of a tree's leaves begin at 0 in each. From a
root of the newest shard, a `ShardLink` for each shard leads back to the last root of any former
one: that the newest tree begins with an entry, and that this entry names the former root.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field, ValidationError
from typing_extensions import Self

from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.message import Strict, explain
from fleetledger.schemas.proofs.inclusion import InclusionProof, Size
from fleetledger.schemas.values import Digest

SHARD_BEGAN = "log-shard.began"
"""The kind of the entry that a shard other than the first one begins with."""
MAX_LINKS = 256
"""Shards that a proof may lead back over."""
MAX_LINK_CHARACTERS = 1 << 12


class ShardStart(Strict):
    """How the former shard ended; the body of a shard's first entry."""

    number: int = Field(ge=1, lt=2**31)
    """Of the shard that begins; the first of a log is 0."""
    former_first: Size
    """Index of the former shard's first entry; its last one is the entry before this."""
    former_root: Digest
    """The root over all entries of the former shard."""

    @classmethod
    def after(cls, number: int, first: int, root: Digest) -> Self:
        """Return what the shard after one says, of its number, first entry and last root."""
        return cls(number=number + 1, former_first=first, former_root=root)


@dataclass(frozen=True)
class TreeHead:
    """The tree of one shard: over the entries from `first` on, before `size`."""

    size: int
    """Entries of the whole log up to there."""
    root: Digest
    shard: int = 0
    first: int = 0
    """Index of the shard's first entry."""

    @property
    def leaves(self) -> int:
        """Number of the tree's own leaves."""
        return self.size - self.first


class ShardLink(Strict):
    """The first entry of a shard, and that the shard's tree begins with it."""

    entry: str = Field(max_length=MAX_LINK_CHARACTERS)
    inclusion: InclusionProof


def former_head(head: TreeHead, link: ShardLink) -> TreeHead:
    """Return the last tree of the shard before that of `head`; raise as `entry_under` does."""
    proof = link.inclusion
    if (proof.index, proof.size) != (0, head.leaves):
        raise ProofError(
            f"shard {head.shard}: the proof is about leaf {proof.index} of {proof.size}, and its "
            f"first entry stands at 0 of {head.leaves}"
        )
    line, body = proof.entry_under(head.root, link.entry)
    if line.get("kind") != SHARD_BEGAN:
        raise ProofError(f"shard {head.shard}: begins with an entry that is no {SHARD_BEGAN!r}")
    try:
        start = ShardStart.model_validate(body)
    except ValidationError as error:
        raise ProofError(f"shard {head.shard}: its first entry: {explain(error)}") from error
    if (line.get("index"), start.number) != (head.first, head.shard):
        raise ProofError(
            f"shard {head.shard}: begins at entry {head.first}, and its first entry says shard "
            f"{start.number} at {line.get('index')}"
        )
    return TreeHead(head.first, start.former_root, start.number - 1, start.former_first)


def followed_back(head: TreeHead, links: Iterable[ShardLink]) -> TreeHead:
    """Return the tree to which links lead back, newest shard first; raise as `entry_under`."""
    for link in links:
        head = former_head(head, link)
    return head

"""The proof of one entry of a fleet's ledger: it convinces whoever has the coordinator's key.

entry         the entry's bytes: one line of JSON that says who, when and what, and one that is
              the body; their leaf hash is SHA-256(0x00 || bytes)
inclusion     index, size and the hashes beside the way up (RFC 9162, 2.1.3)
shards        where the entry is in a former shard: links to it from the newest one
checkpoint    the signed note of the newest shard
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from fleetledger.schemas.counted import count_of
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.message import Items, Strict, is_absent
from fleetledger.schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from fleetledger.schemas.proofs.inclusion import InclusionProof
from fleetledger.schemas.proofs.shards import MAX_LINKS, ShardLink, followed_back
from fleetledger.schemas.values import FleetId

MAX_ENTRY_CHARACTERS = 1 << 21


class EntryProof(Strict):
    """An entry, and why it must be in the ledger."""

    entry: str = Field(max_length=MAX_ENTRY_CHARACTERS)
    inclusion: InclusionProof
    """In the tree of the entry's shard, whose leaves are counted from 0."""
    shards: Items[ShardLink] = Field(default=(), max_length=MAX_LINKS, exclude_if=is_absent)
    """From the newest shard back to the entry's; none where it is that one."""
    checkpoint: str = Field(max_length=MAX_NOTE_BYTES)
    """The signed note."""


@dataclass(frozen=True)
class ProvenEntry:
    """What a proof that holds says."""

    index: int
    kind: str
    device: str | None
    """Who gave it, where a device did."""
    body: dict[str, Any]
    checkpoint: Checkpoint


def check_entry(proof: EntryProof, fleet: FleetId, keys: Iterable[VerifyKey]) -> ProvenEntry:
    """Return what a proof says that leads to a checkpoint which one of `keys` signed.

    Raises `SignatureError` and `ProofError`, and `SchemaError` for an entry that is no JSON.
    """
    checkpoint = Checkpoint.read(proof.checkpoint, fleet, keys)
    head = followed_back(checkpoint.head, proof.shards)
    if head.leaves != proof.inclusion.size:
        raise ProofError(
            f"checkpoint: is of {count_of(head.leaves, 'entry', 'entries')}, and the proof leads "
            f"to the root of {proof.inclusion.size}; they do not belong together"
        )
    line, body = proof.inclusion.entry_under(head.root, proof.entry)
    index = head.first + proof.inclusion.index
    if line.get("index") != index:
        raise ProofError(
            f"entry: says that it is number {line.get('index')}, and stands at {index}"
        )
    return ProvenEntry(index, str(line.get("kind")), line.get("device"), body, checkpoint)

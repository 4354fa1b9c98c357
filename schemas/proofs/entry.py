"""The proof of one entry of a fleet's ledger: it convinces whoever has the coordinator's key.

entry         the entry's bytes: one line of JSON that says who, when and what, and one that is
              the body; their leaf hash is SHA-256(0x00 || bytes)
inclusion     index, size and the hashes beside the way up (RFC 9162, 2.1.3)
checkpoint    the signed note of that size
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from schemas.canonical import parse_json
from schemas.errors import ProofError
from schemas.keys import VerifyKey
from schemas.message import Strict
from schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from schemas.proofs.inclusion import InclusionProof
from schemas.proofs.tree import leaf_hash
from schemas.values import FleetId

MAX_ENTRY_CHARACTERS = 1 << 21


class EntryProof(Strict):
    """An entry, and why it must be in the ledger."""

    entry: str = Field(max_length=MAX_ENTRY_CHARACTERS)
    inclusion: InclusionProof
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
    data = proof.entry.encode()
    checkpoint = Checkpoint.read(proof.checkpoint, fleet, keys)
    if checkpoint.size != proof.inclusion.size:
        raise ProofError(
            f"checkpoint: is of {checkpoint.size} entries, and the proof leads to the root of "
            f"{proof.inclusion.size}; they do not belong together"
        )
    proof.inclusion.check(leaf_hash(data), checkpoint.root)
    first, _, second = data.partition(b"\n")
    head, body = parse_json(first), parse_json(second)
    if not isinstance(head, dict) or not isinstance(body, dict):
        raise ProofError("entry: is not two lines with a JSON object each")
    if head.get("index") != proof.inclusion.index:
        raise ProofError(
            f"entry: says that it is number {head.get('index')}, and stands at "
            f"{proof.inclusion.index}"
        )
    return ProvenEntry(
        proof.inclusion.index, str(head.get("kind")), head.get("device"), body, checkpoint
    )

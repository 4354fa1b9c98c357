"""The proof of one entry of a fleet's ledger: it convinces whoever has the coordinator's key.

entry         the entry's bytes: one line of JSON that says who, when and what, and one that is
              the body; their leaf hash is SHA-256(0x00 || bytes)
inclusion     index, size and the hashes beside the way up (RFC 9162, 2.1.3)
checkpoint    the signed note
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import parse_json
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from fleetledger.schemas.proofs.inclusion import InclusionProof
from fleetledger.schemas.proofs.tree import leaf_hash
from fleetledger.schemas.values import FleetId

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
    checkpoint = Checkpoint.read(proof.checkpoint, fleet, keys)
    if checkpoint.size != proof.inclusion.size:
        raise ProofError(
            f"checkpoint: is of {count_of(checkpoint.size, 'entry', 'entries')}, and the proof "
            f"leads to the root of {proof.inclusion.size}; they do not belong together"
        )
    data, index = proof.entry.encode(), proof.inclusion.index
    proof.inclusion.check(leaf_hash(data), checkpoint.root)
    first, _, second = data.partition(b"\n")
    line, body = parse_json(first), parse_json(second)
    if not isinstance(line, dict) or not isinstance(body, dict):
        raise ProofError("entry: is not two lines with a JSON object each")
    if line.get("index") != index:
        raise ProofError(
            f"entry: says that it is number {line.get('index')}, and stands at {index}"
        )
    return ProvenEntry(index, str(line.get("kind")), line.get("device"), body, checkpoint)

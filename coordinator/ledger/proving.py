"""The proof of one entry: a file that convinces without the ledger, checked without this program.

entry         the entry's bytes; their leaf hash is SHA-256(0x00 || bytes)
inclusion     index, size and the hashes beside the way up (RFC 9162, 2.1.3)
checkpoint    the signed note of that size
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coordinator.errors import AuditError, EntryError
from coordinator.ledger.entries import Entry, read_canonical
from coordinator.ledger.reader import LedgerReader
from schemas.canonical import parse_json
from schemas.errors import SchemaError
from schemas.keys import VerifyKey
from schemas.message import Message
from schemas.proofs.checkpoint import Checkpoint
from schemas.proofs.inclusion import InclusionProof
from schemas.proofs.tree import leaf_hash
from schemas.values import FleetId

MAX_PROOF_BYTES = 1 << 22
"""Of a proof's file: the largest entry, escaped, and little beside it."""


class EntryProof(Message):
    """An entry and why it must be in the fleet's ledger."""

    kind = "entry-proof"
    fleet: FleetId
    entry: str
    inclusion: InclusionProof
    checkpoint: str
    """The signed note."""


@dataclass(frozen=True)
class Proven:
    """What a proof that holds says."""

    entry: Entry
    checkpoint: Checkpoint

    def __str__(self) -> str:
        """Return one sentence for whoever checked it."""
        signed = self.checkpoint
        return (
            f"entry {self.entry.index} is in the ledger of {signed.fleet}: "
            f"signed over {signed.size} entries, root {signed.root}"
        )


def prove(ledger: LedgerReader, index: int, fleet: FleetId) -> EntryProof:
    """Return the proof of an entry under the newest checkpoint.

    Raises `AuditError` where that is not signed, `LedgerError` where there is no such entry.
    """
    entry = ledger.entry(index)
    newest = ledger.checkpoint
    assert newest is not None  # there is an entry
    if newest.note is None:
        raise AuditError(
            f"checkpoint of size {newest.size}: not signed; a coordinator signs what it "
            "writes from its next start on"
        )
    return EntryProof(
        fleet=fleet,
        entry=entry.canonical.decode(),
        inclusion=ledger.inclusion_proof(index, newest.size),
        checkpoint=newest.note,
    )


def read(file: Path) -> EntryProof:
    """Return the proof in a file; raise `AuditError` for a file that holds none."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_PROOF_BYTES + 1)
        if len(data) > MAX_PROOF_BYTES:
            raise AuditError(f"{file}: is larger than {MAX_PROOF_BYTES} bytes; no proof is")
        return EntryProof.read(parse_json(data))
    except OSError as error:
        raise AuditError(f"{file}: cannot be read: {error.strerror}") from error
    except SchemaError as error:
        raise AuditError(f"{file}: holds no proof: {error}") from error


def check(proof: EntryProof, fleet: FleetId, keys: Iterable[VerifyKey]) -> Proven:
    """Return what a proof says; raise `AuditError` unless one of `keys` vouches for it."""
    data = proof.entry.encode()
    try:
        checkpoint = Checkpoint.read(proof.checkpoint, fleet, keys)
        if checkpoint.size != proof.inclusion.size:
            raise AuditError(
                f"checkpoint: is of {checkpoint.size} entries, and the proof leads to the root of "
                f"{proof.inclusion.size}; they do not belong together"
            )
        proof.inclusion.check(leaf_hash(data), checkpoint.root)
        entry = read_canonical(data)
    except (SchemaError, EntryError) as error:
        raise AuditError(str(error)) from error
    if entry.index != proof.inclusion.index:
        raise AuditError(
            f"entry: says that it is number {entry.index}, and stands at {proof.inclusion.index}"
        )
    return Proven(entry, checkpoint)

"""Proofs of single entries: made from the ledger, and checked from a file anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from fleetledger.coordinator.errors import AuditError, EntryError
from fleetledger.coordinator.ledger.entries import Entry, read_canonical
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.canonical import parse_json
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.message import explain
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.proofs.entry import EntryProof, check_entry
from fleetledger.schemas.values import FleetId

MAX_PROOF_BYTES = 1 << 22
"""Of a proof's file: the largest entry, escaped, and little beside it."""


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
            f"signed over {count_of(signed.size, 'entry', 'entries')}, root {signed.root}"
        )


def prove(ledger: LedgerReader, index: int) -> EntryProof:
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
        parse_json(data)
        return EntryProof.model_validate_json(data, strict=True)
    except OSError as error:
        raise AuditError(f"{file}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise AuditError(f"{file}: holds no proof: {explain(error)}") from error
    except SchemaError as error:
        raise AuditError(f"{file}: holds no proof: {error}") from error


def check(proof: EntryProof, fleet: FleetId, keys: Iterable[VerifyKey]) -> Proven:
    """Return what a proof says; raise `AuditError` unless one of `keys` vouches for it."""
    try:
        proven = check_entry(proof, fleet, keys)
        return Proven(read_canonical(proof.entry.encode()), proven.checkpoint)
    except (SchemaError, EntryError) as error:
        raise AuditError(str(error)) from error

"""Proof in a receipt that the ledger holds the entry which the receipt names; alike of a cohort.

It is made when the receipt is sent, under the newest checkpoint, so a receipt that is sent again
proves more. Where the device has said which checkpoint it knows, the way from there comes with it.
"""

from __future__ import annotations

from typing import Any

from fleetledger.coordinator.ledger.entry_proofs import prove
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.presence import SeenCheckpoint
from fleetledger.schemas.receipts import Accepted, Receipt


def with_proof(receipt: Receipt, ledger: LedgerReader, seen_size: int | None) -> dict[str, Any]:
    """Return a receipt's body as JSON, with its proof.

    It has none where it accepts nothing or nobody signs. The proof is the JSON of an `EntryProof`,
    of values that the ledger has checked: to make the models takes longer than to read the proof.
    """
    body, answer, newest = receipt.model_dump(mode="json"), receipt.answer, ledger.checkpoint
    if not isinstance(answer, Accepted) or newest is None or newest.note is None:
        return body
    index = answer.ledger_index
    path = [node.hex() for node in ledger.inclusion_path(index, newest.size)]
    body["answer"]["proof"] = {
        "entry": ledger.text(index),
        "inclusion": {"index": index, "size": newest.size, "path": path},
        "checkpoint": newest.note,
    }
    if seen_size is not None and seen_size <= newest.size:
        grown = ledger.consistency_proof(seen_size, newest.size)
        body["answer"]["grown"] = grown.model_dump(mode="json")
    return body


def with_cohort_proof(body: Assignment, ledger: LedgerReader, index: int) -> Assignment:
    """Return an assignment whose cohort is proven to be formed; as it is, where nobody signs."""
    newest = ledger.checkpoint
    if body.cohort is None or newest is None or newest.note is None:
        return body
    proven = body.cohort.model_copy(update={"proof": prove(ledger, index)})
    return body.model_copy(update={"cohort": proven})


def contradiction(ledger: LedgerReader, seen: SeenCheckpoint) -> str:
    """Return in words how the ledger differs from what a device has seen; empty where it agrees."""
    if seen.size > ledger.size:
        return (
            f"ledger: this device has seen {count_of(seen.size, 'entry', 'entries')}, and there "
            f"are {ledger.size}; it "
            f"was cut short, or restored from a backup that ends before entry {ledger.size}"
        )
    root = ledger.root_at(seen.size)
    if root != seen.root:
        return (
            f"ledger: this device has seen the root {seen.root.short} over "
            f"{count_of(seen.size, 'entry', 'entries')}, "
            f"and here it is {root.short}: there are two histories"
        )
    return ""

"""Whether the ledger is intact, what was written last, and how one entry is proved."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, NotThereError, Sources
from fleetledger.coordinator.dashboard.verification import VerificationNow
from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.keys import public_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.history import GROUPS, troubles
from fleetledger.coordinator.reports.reports import EntryReport, ShownEntry
from fleetledger.coordinator.settings import load
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.proofs.inclusion import InclusionProof
from fleetledger.schemas.proofs.tree import node_hash
from fleetledger.transport.pages.words import number, plural

SHOWN = 30
"""Entries of a page."""
PROBLEMS = "problems"
CHOICES = ("", *GROUPS, PROBLEMS)


class CheckpointNow(Strict):
    """The newest checkpoint: what the coordinator signed over all entries."""

    size: int
    root: str
    time_ns: int
    signed: bool
    key: str
    """Name and hash of the key that signs; empty where there is none yet."""


class ProofStep(Strict):
    """A hash on the way from the leaf to the root."""

    side: str
    """Where the given hash stands beside what stands so far: `left` or `right`."""
    given: str
    result: str


class OneEntry(Strict):
    """One entry, and the proof that it is in the ledger."""

    entry: EntryReport
    """What `ledger show` shows."""
    size: int
    """Entries of the ledger to whose root the steps lead."""
    steps: tuple[ProofStep, ...]
    root: str
    holds: bool
    """Whether the root of the newest checkpoint follows."""


class LedgerPage(PageModel):
    """The ledger."""

    fleet: str
    size: int
    about: str
    word: str
    choices: tuple[str, ...] = CHOICES
    entries: tuple[ShownEntry, ...]
    older: int | None
    """Below which index older entries are; None where there are none."""
    newest: bool
    """Whether the newest entries are among these."""
    checkpoint: CheckpointNow | None
    verification: VerificationNow | None
    share_walked: float | None
    entry: OneEntry | None


def read(sources: Sources, asked: Asked) -> LedgerPage:
    """Return entries, newest first, and one of them with its proof; raise `NotThereError`."""
    ledger, size = sources.ledger, sources.ledger.size
    about, word = asked.query.get("about", ""), asked.query.get("q", "").strip()
    chosen = _index(asked.query.get("entry", ""), size)
    before = _before(asked.query.get("before"), chosen, size)
    found = _found(ledger, about, word, before)
    checking = sources.verification
    return LedgerPage(
        title=_title(size, checking),
        fleet=load(sources.home).fleet,
        size=size,
        about=about,
        word=word,
        entries=tuple(map(ShownEntry.of, found[:SHOWN])),
        older=found[SHOWN - 1].index if len(found) > SHOWN else None,
        newest=before >= size,
        checkpoint=_checkpoint(sources),
        verification=checking,
        share_walked=None if checking is None else checking.walked / max(1, checking.size),
        entry=None if chosen is None else _one(ledger, chosen),
    )


def _title(size: int, checking: VerificationNow | None) -> str:
    if not size:
        return "The ledger is empty: nothing has happened yet."
    if checking is None:
        return (
            f"The ledger holds {plural(size, 'entry', 'entries')}; verify it to see that it fits."
        )
    if checking.state == "running":
        return f"The ledger is being verified: {plural(checking.size, 'entry', 'entries')}."
    if checking.state == "failed":
        return "The ledger could not be verified."
    if checking.state == "does not fit":
        return f"The ledger does not fit: {checking.found}."
    last = checking.walked - 1
    if checking.walked < size:
        new = plural(size - checking.walked, "entry is", "entries are")
        return f"The ledger fits up to entry {number(last)}; {new} newer than that."
    return f"The ledger fits: entries 0 to {number(last)} are as they were written."


def _index(text: str, size: int) -> int | None:
    text = text.strip().lstrip("#").replace(",", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or int(text) >= size:
        held = f"it holds 0 to {size - 1}" if size else "it is empty"
        raise NotThereError(f"{text[:20]} is not the index of an entry of the ledger; {held}.")
    return int(text)


def _before(text: str | None, chosen: int | None, size: int) -> int:
    if text is not None and text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    # Around the entry that was asked for, if it is not among the newest.
    return size if chosen is None or chosen >= size - SHOWN else chosen + SHOWN // 2


def _found(ledger: LedgerReader, about: str, word: str, before: int) -> list[Entry]:
    if about == PROBLEMS and not word:
        return troubles(ledger, before, SHOWN + 1)
    kinds = GROUPS.get(about)
    return ledger.newest(SHOWN + 1, before=before, kinds=kinds, word=word or None)


def _checkpoint(sources: Sources) -> CheckpointNow | None:
    newest = sources.ledger.checkpoint
    if newest is None:
        return None
    try:
        key = public_key(sources.home)
    except KeyFileError:
        key = None
    return CheckpointNow(
        size=newest.size,
        root=str(newest.root),
        time_ns=newest.time_ns,
        signed=newest.note is not None,
        key="" if key is None else f"{key.name}+{key.key_hash.hex()}",
    )


def _one(ledger: LedgerReader, index: int) -> OneEntry:
    entry, size = ledger.entry(index), ledger.size
    newest = next(ledger.checkpoints(size - 1), None)
    proof = ledger.inclusion_proof(index, size)
    steps = tuple(_steps(proof, entry.leaf_hash))
    root = steps[-1].result if steps else entry.leaf_hash.hex()
    return OneEntry(
        entry=EntryReport.whole(entry),
        size=proof.size,
        steps=steps,
        root=root,
        holds=newest is not None and root == newest.root,
    )


def _steps(proof: InclusionProof, leaf: bytes) -> list[ProofStep]:
    """Return the way that `InclusionProof.root` goes, hash by hash."""
    place, last, stands, found = proof.index, proof.size - 1, leaf, list[ProofStep]()
    for given in map(bytes.fromhex, proof.path):
        left = bool(place & 1) or place == last
        if left:
            stands = node_hash(given, stands)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            stands = node_hash(stands, given)
        place, last = place >> 1, last >> 1
        found.append(
            ProofStep(side="left" if left else "right", given=given.hex(), result=stands.hex())
        )
    return found

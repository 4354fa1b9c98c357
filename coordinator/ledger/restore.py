"""Making a ledger of its mirror, on a machine that has none.

Everything is checked before it becomes a ledger: that the checkpoint was signed by a key that is
known here, that every entry is in its one spelling and at its place, that all of them give the root
that was signed, that every blob has its digest, and that an entry says of each missing one that it
was deleted. The ledger grows in a folder beside its place and
is renamed when it is whole; whoever is interrupted begins again, with the large blobs that came.

Keys and settings are not in a mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import AuditError, BlobMissingError, LedgerError
from fleetledger.coordinator.ledger.audit import bundled_entries, check_root, signed_note
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.deletions import SaysPruned
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.folder_store import fsync_folder, make_folder
from fleetledger.coordinator.ledger.mirror import mirrored_blobs, pruned_mark
from fleetledger.coordinator.ledger.objects import Objects, objects_at
from fleetledger.coordinator.ledger.run_finding import in_runs
from fleetledger.coordinator.ledger.store import SMALL_BLOB_BYTES, Ledger
from fleetledger.coordinator.ledger.tiles import widths
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.proofs.tree import Frontier
from fleetledger.schemas.values import Digest, FleetId

_BUILDING = "restoring"
"""In the home: where a ledger grows before it is one."""
_MAX_SIZE_DIGITS = 20


@dataclass(frozen=True)
class Restored:
    """What became a ledger."""

    checkpoint: Checkpoint
    blobs: int
    pruned: int

    def __str__(self) -> str:
        """Return one sentence for the operator."""
        signed = self.checkpoint
        pruned = f", {self.pruned} pruned" if self.pruned else ""
        return (
            f"{count_of(signed.size, 'entry', 'entries')} of {signed.fleet} and "
            f"{count_of(self.blobs, 'blob')} fit what was signed"
            f"{pruned}; root {signed.root}"
        )


@dataclass(frozen=True)
class LedgerOwner:
    """Whose ledger it must be, and what its entries say of deleted blobs."""

    fleet: FleetId
    key: VerifyKey
    prunings: SaysPruned


def restore(
    location: str | Path,
    home: Path,
    known: LedgerOwner,
    *,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Restored:
    """Make the ledger of a home from a mirror; large blobs go to `store`, if not beside it.

    `progress` is told how many entries of how many are there. Raises `LedgerError` where the home
    has a ledger, `AuditError` for what is not as it was signed, `BlobError` for a blob that is
    missing or changed, or a place that cannot be read or written.
    """
    ledger_folder, building = ledger_path(home).parent, home / _BUILDING
    if ledger_folder.exists():
        raise LedgerError(f"{ledger_folder}: is there already; restore into a new --home")
    objects = objects_at(location)
    note, signed = signed_note(objects, known.fleet, (known.key,))
    path = ledger_path(building)
    make_folder(path.parent)
    for file in path.parent.glob(f"{path.name}*"):  # of an attempt that was interrupted
        file.unlink()
    blobs = _Blobs(objects, mirrored_blobs(location), BlobStore(store or blob_folder(building)))

    def last_note(size: int, _: Digest) -> str | None:
        return note if size == signed.size else None

    with Ledger.open(path, sign_note=last_note) as ledger:
        _fill(ledger, signed, blobs, known.prunings, progress)
    path.parent.replace(ledger_folder)
    fsync_folder(home)
    building.rmdir()
    return Restored(signed, len(blobs.held), len(blobs.pruned))


def _fill(
    ledger: Ledger,
    signed: Checkpoint,
    blobs: _Blobs,
    prunings: SaysPruned,
    progress: Callable[[int, int], None],
) -> None:
    """Append what was mirrored; raise `AuditError` before the last if it was not signed.

    Raises it at the end, too, for a blob that is missing and that no entry says was deleted.
    """
    frontier = Frontier()
    for number, width in enumerate(widths(signed.size)):
        entries = tuple(bundled_entries(blobs.objects, number, width))
        frontier = frontier.grown(entry.leaf_hash for entry in entries)
        if frontier.size == signed.size:
            check_root(blobs.objects, signed, frontier)
        small, pruned = blobs.fetched(entries)
        for entry in entries:
            prunings.apply(entry, [digest for digest in entry.blobs if digest in pruned])
        ledger.append(in_runs([entry.to_draft() for entry in entries]), small, pruned)
        progress(ledger.size, signed.size)
    lost = prunings.unexplained()
    if lost is not None:
        raise AuditError(
            f"blob {lost}: is missing in the mirror, which says that it was deleted on purpose; no "
            "entry of the ledger says so: put it back there, then restore"
        )


class _Blobs:
    """Brings blobs of a mirror here, each once."""

    def __init__(self, objects: Objects, mirrored: BlobStore, store: BlobStore) -> None:
        self.held: set[Digest] = set()
        self.pruned: set[Digest] = set()
        self.objects = objects
        self._mirrored = mirrored
        self._store = store

    def fetched(self, entries: Iterable[Entry]) -> tuple[dict[Digest, bytes], dict[Digest, int]]:
        """Return small blobs that entries name, and sizes of pruned ones; store large ones."""
        small, pruned = dict[Digest, bytes](), dict[Digest, int]()
        named = dict.fromkeys(digest for entry in entries for digest in entry.blobs)
        for digest in [item for item in named if item not in self.held | self.pruned]:
            size = self._mirrored.size(digest)
            if size is None:
                pruned[digest] = self._pruned_size(digest)
            elif size <= SMALL_BLOB_BYTES:
                small[digest] = self._mirrored.get(digest)
            else:
                self._store.take(self._mirrored, digest)
        self.pruned.update(pruned)
        self.held.update(digest for digest in named if digest not in self.pruned)
        return small, pruned

    def _pruned_size(self, digest: Digest) -> int:
        name = pruned_mark(digest)
        said = self.objects.read(name, _MAX_SIZE_DIGITS)
        if said is None:
            raise BlobMissingError(
                f"blob {digest}: is missing in the mirror, which does not say that it was deleted "
                "on purpose; put it back there, then restore"
            )
        if not said.strip().isdigit():
            raise AuditError(f"{self.objects.place(name)}: holds no size; mirror anew")
        return int(said)

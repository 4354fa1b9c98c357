"""The errors of the coordinator.

CoordinatorError
├── CommandError            the operator asked for something that makes no sense now
│   └── QuestionError       ... or that has to be asked first
├── OperatorTimeoutError    no coordinator answered a command
├── MissingLibraryError     something has to be installed first; names the command
├── InboxError              the file of the operator's commands cannot be read or written
├── BackboneFileError       a file that should be a backbone cannot be read
├── NetworkSettingsError    the settings name no network that could be trained
├── LackingError            a method or network of the ledger is not installed here
├── UnknownClassError       a class name that the registry lacks
├── ProxyError              the proxy cannot start, or not keep what it must
├── ProvisionError          kits cannot be made: a wrong table, or settings that do not fit
├── BundleError             a bundle cannot be made, or is not believed
├── KeyFileError            a key cannot be made, read or used
├── TrustError              a root cannot be made, read or published
├── AuditError              an exported ledger, or a proof of an entry, does not hold
├── LedgerError             the ledger cannot be read or written
│   ├── EntryError          an entry that may not be written
│   ├── LedgerLockedError   another process is the writer
│   ├── LedgerWriteError    a group could not be committed; nothing of it was stored
│   ├── SnapshotError       a state cannot be said in a snapshot, or not be read from one
│   └── LedgerCorruptError  an entry or a checkpoint does not fit
└── BlobError               a blob cannot be had
    ├── BlobMissingError    nobody holds it
    ├── BlobPrunedError     it was deleted on purpose
    └── BlobCorruptError    its bytes have another digest
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.values import Digest


class CoordinatorError(FleetledgerError):
    """Base of the coordinator's errors."""


class CommandError(CoordinatorError):
    """The operator asked for something that makes no sense now; nothing was changed."""


class QuestionError(CommandError):
    """The operator is asked first; nothing was changed, and the same may be said again, surely."""


class OperatorTimeoutError(CoordinatorError):
    """No coordinator answered a command in time."""


class MissingLibraryError(CoordinatorError):
    """Something has to be installed before this can be done; the message names the command."""


class InboxError(CoordinatorError):
    """The file of the operator's commands cannot be read or written now (full disk, busy)."""


class BackboneFileError(CoordinatorError):
    """A file that should be a backbone cannot be read."""


class NetworkSettingsError(CoordinatorError):
    """The settings name no network that the fleet could train; the text names the field."""


class LackingError(CoordinatorError):
    """A method or a network of the ledger is not installed here, or has other code."""


class UnknownClassError(CoordinatorError):
    """A class name that the registry lacks."""


class ProxyError(CoordinatorError):
    """The proxy cannot start, or its store cannot be read or written."""


class ProvisionError(CoordinatorError):
    """Kits cannot be made: the table is wrong, or settings do not fit; nothing was done."""


class BundleError(CoordinatorError):
    """A bundle cannot be made, or is not believed; the text says why."""


class KeyFileError(CoordinatorError):
    """A key cannot be made, read or used; the text names the file."""


class TrustError(CoordinatorError):
    """A root document cannot be made, read or published; the text says what is missing."""


class AuditError(CoordinatorError):
    """An exported ledger, or the proof of an entry, does not hold; the text says where."""


class LedgerError(CoordinatorError):
    """The ledger cannot be read or written."""


class EntryError(LedgerError):
    """An entry may not be written: a field is wrong or the body is no JSON or too large."""


class LedgerLockedError(LedgerError):
    """Another process is the ledger's writer; the text names its process id."""


class LedgerWriteError(LedgerError):
    """A group could not be committed (full disk, busy database); nothing of it was stored."""


class SnapshotError(LedgerError):
    """A state cannot be said in a snapshot, or not be read from one; the entries give it, too."""


class FoldError(LedgerError):
    """An entry does not follow from those before it, or is of a kind that this program lacks."""

    def __init__(self, index: int, kind: str, why: str) -> None:
        super().__init__(
            f"entry {index} ({kind}): cannot be applied: {why}; "
            "`fleetledger ledger verify` finds what was changed, `fleetledger ledger restore` "
            "brings a mirror's copy back"
        )


@dataclass(frozen=True)
class Mismatch:
    """The place where stored and recomputed disagree."""

    place: str
    """What does not fit, in words: `entry 5`, `checkpoint of size 64`, `blob 12ab…`."""
    field: str
    expected: str
    found: str
    index: int | None = None
    """Index of the (first) entry concerned; None where no entry is."""
    kind: str | None = None
    """Kind of that entry, where it can be read."""

    def __str__(self) -> str:
        """Return the one sentence for the operator."""
        kind = f" ({self.kind})" if self.kind else ""
        return f"{self.place}{kind}: {self.field} should be {self.expected}, found {self.found}"


class LedgerCorruptError(LedgerError):
    """An entry or a checkpoint does not fit the others."""

    def __init__(self, mismatch: Mismatch) -> None:
        self.mismatch = mismatch
        super().__init__(f"{mismatch}; `fleetledger ledger verify` checks the whole ledger")


class BlobError(CoordinatorError):
    """A blob cannot be had."""


class BlobMissingError(BlobError):
    """A blob that nobody holds, though it was not deleted on purpose."""


class BlobPrunedError(BlobError):
    """A blob that retention deleted; its entry stays."""


class BlobCorruptError(BlobError):
    """The bytes stored under a digest have another one, `found`."""

    def __init__(self, digest: Digest, found: Digest) -> None:
        self.found = found
        super().__init__(
            f"blob {digest}: its bytes have the digest {found}; restore it from a copy"
        )

"""The errors of the coordinator.

    CoordinatorError
    ├── CommandError            the operator asked for something that makes no sense now
    ├── OperatorTimeoutError    no coordinator answered a command
    ├── UnknownClassError       a class name that the registry lacks
    ├── LedgerError             the ledger cannot be read or written
    │   ├── LedgerLockedError   another process is the writer
    │   └── LedgerCorruptError  an entry, a checkpoint or a projection does not fit
    └── BlobError               a blob is missing or has another digest
"""

from __future__ import annotations

from schemas.errors import FleetledgerError


class CoordinatorError(FleetledgerError):
    """Base of the coordinator's errors."""


class CommandError(CoordinatorError):
    """The operator asked for something that makes no sense now; nothing was changed."""


class OperatorTimeoutError(CoordinatorError):
    """No coordinator answered a command in time."""


class UnknownClassError(CoordinatorError):
    """A class name that the registry lacks."""


class LedgerError(CoordinatorError):
    """The ledger cannot be read or written."""


class LedgerLockedError(LedgerError):
    """Another process is the ledger's writer; the text names its process id."""


class LedgerCorruptError(LedgerError):
    """An entry, a checkpoint or a projection does not fit the others."""


class BlobError(CoordinatorError):
    """A blob is missing, or its bytes have another digest."""

"""One writer: a lock file that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from fleetledger.coordinator.errors import LedgerLockedError


def lock_path(ledger: Path) -> Path:
    """Return the lock file beside a ledger."""
    return ledger.with_name(ledger.name + ".lock")


class WriterLock:
    """An exclusive `flock` on a file that holds the process id of whoever has it."""

    def __init__(self, path: Path) -> None:
        """Take the lock; raise `LedgerLockedError`, naming the holder, where it is taken."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise LedgerLockedError(
                f"{path}: process {holder} is writing this ledger; stop it, or only read"
            ) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode("ascii"), 0)

    @staticmethod
    def holder(path: Path) -> int | None:
        """Return the process that has the lock; None where nobody has it, or none can be told.

        For readers: the lock is taken for a moment, for which a writer that starts waits.
        """
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            number = os.pread(file, 32, 0).decode("ascii", "replace").strip()
            return int(number) if number.isdecimal() else None
        except OSError:
            return None  # a file system without locks
        finally:
            os.close(file)
        return None

    def release(self) -> None:
        """Let another process write; the file stays, because removing it would race."""
        os.close(self._file)

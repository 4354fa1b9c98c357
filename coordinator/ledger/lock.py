"""One writer: a lock file that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from coordinator.errors import LedgerLockedError


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

    def release(self) -> None:
        """Let another process write; the file stays, because removing it would race."""
        os.close(self._file)

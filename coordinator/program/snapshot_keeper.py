"""Snapshots of the state, made by a process of its own while a coordinator serves.

It reads the ledger as anybody may, begins with the snapshot of before, and ends: nothing waits for
it, and what it writes is what the disk gives, not what a running program has in memory. Whenever it
is killed, there is the snapshot of before, or the new one.

    python -m fleetledger.coordinator.program.snapshot_keeper LEDGER
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fleetledger.coordinator.core.state_fold import folded, keep_snapshot
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.problems import OpenProblem

log = logging.getLogger("coordinator")

_NICENESS = 10
LONG_SECONDS = 600.0
"""After which a snapshot that does not end is told."""
_MOST_SAID = 2000


class SnapshotKeeper:
    """Has a snapshot made after every so many entries; one thread uses it."""

    def __init__(self, ledger_file: Path, every: int, size: int) -> None:
        """Begin with a ledger of `size` entries, of which the newest snapshot is; 0 for none."""
        self._file = ledger_file
        self._every = every
        self._last = size
        self.process: subprocess.Popen[bytes] | None = None
        """The one that is under way."""
        self._began = 0.0
        self._failed = ""
        """Why the newest one was not made; empty where it was."""

    def keep_if_due(self, size: int) -> None:
        """Begin one if it is time, the ledger having so many entries; tell how the last one went.

        Costs nothing where none is due and none under way.
        """
        if self.process is not None and self.process.poll() is not None:
            self._tell(self.process)
            self.process = None
        if self._every and self.process is None and size - self._last >= self._every:
            self._last = size
            self.process, self._failed = self._begin()
            self._began = time.monotonic()

    def problems(self) -> Iterator[OpenProblem]:
        """Yield why the next start may take long."""
        if self._failed:
            text = f"the state was not kept: {self._failed}; the next start reads more entries"
            yield OpenProblem("snapshot", text, key="failed")
        elif self.process is not None and time.monotonic() - self._began > LONG_SECONDS:
            text = (
                f"process {self.process.pid} keeps the state and does not end; look at the disk, "
                f"or `kill {self.process.pid}`: another one begins later"
            )
            yield OpenProblem("snapshot", text, key="long")

    def close(self) -> None:
        """End what is under way: the next start reads the entries that it would have saved."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _tell(self, process: subprocess.Popen[bytes]) -> None:
        _, said = process.communicate()
        if process.returncode:
            text = said.decode("utf-8", "replace").strip()[-_MOST_SAID:]
            self._failed = text or f"exit code {process.returncode}"
            log.warning("the snapshot of the state was not made: %s", self._failed)

    def _begin(self) -> tuple[subprocess.Popen[bytes] | None, str]:
        command = [sys.executable, "-m", __name__, os.fspath(self._file)]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        except OSError as error:
            log.warning("the snapshot of the state was not made: %s", error)
            return None, str(error)
        return process, ""


def main() -> None:
    """Make a snapshot of the ledger that is named; end with a sentence where that fails."""
    os.nice(_NICENESS)
    logging.disable()  # a snapshot that does not fit is the coordinator's to tell
    try:
        with LedgerReader.open_read_only(Path(sys.argv[1])) as ledger:
            keep_snapshot(ledger, folded(ledger).state)
    except LedgerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""Writes down every two seconds what is known just now, and never stands in anybody's way."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import Protocol

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.live.meters import Meters
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot
from fleetledger.coordinator.program.live_snapshot import LiveView
from fleetledger.coordinator.program.refusing_disk import RefusingDisk
from fleetledger.runtime.installed_version import installed_version
from fleetledger.transport.access import PasswordMisuse
from fleetledger.transport.clock import Clock

WRITE_SECONDS = 2.0
_MOST_OF_TIME = 0.05
"""The part of its time that a coordinator writes this down for."""
_CONSEQUENCE = "Nobody is shown meanwhile who is there; the fleet itself goes on as before"


class SnapshotFile(Protocol):
    """Where snapshots are written; it raises `sqlite3.Error` or `OSError` where it cannot."""

    def is_there(self) -> bool:
        """Whether it is still where readers look for it."""

    def write(self, snapshot: LiveSnapshot) -> None:
        """Write a snapshot over the one before."""

    def close(self) -> None:
        """Close it."""


class LiveWriter:
    """Writes snapshots to a file that is opened, and opened again, when it can be."""

    def __init__(
        self,
        open_file: Callable[[], SnapshotFile],
        fleet: str,
        clock: Clock,
        misused: Callable[[int], tuple[PasswordMisuse, ...]] = lambda _: (),
    ) -> None:
        """`misused` returns users whose password somebody else may have, at a time in ns."""
        self._open = open_file
        self._misused = misused
        self._clock = clock
        self._disk = RefusingDisk(clock)
        self._file: SnapshotFile | None = None
        self._next = 0.0
        self._view = LiveView()
        self._all_devices = True
        """Whether the file may lack what was drawn before."""
        now_ns = clock.time_ns()
        self.now = CoordinatorNow(
            fleet=fleet,
            version=installed_version(),
            pid=os.getpid(),
            started_ns=now_ns,
            written_ns=now_ns,
        )
        """The coordinator, as the shell has it; what changes is noted by `note`."""

    def note(self, **changed: object) -> None:
        """Note what changed about the coordinator; it is written with the next snapshot."""
        self.now = self.now.model_copy(update=changed)

    def is_due(self) -> bool:
        """Whether it is time to write."""
        return self._clock.seconds() >= self._next

    def write(self, core: Core, ledger_size: int, meters: Meters, ahead_ns: int) -> None:
        """Write what is known now; where the disk refuses it, say so once and try again later."""
        self.note(
            written_ns=self._clock.time_ns(),
            ledger_size=ledger_size,
            making_model=core.live.making_model,
            misused=self._misused(self._clock.time_ns()),
        )
        began = self._clock.seconds()
        try:
            file = self._file_in_place()
            whole, self._all_devices = self._all_devices, True
            file.write(
                self._view.draw(
                    core.state,
                    core.live,
                    self.now,
                    meters,
                    ahead_ns=ahead_ns,
                    all_devices=whole,
                )
            )
        except (sqlite3.Error, OSError) as error:
            self._disk.refused(error, _CONSEQUENCE)
            self._next = self._clock.seconds() + WRITE_SECONDS + self._disk.seconds_left()
        else:
            self._all_devices = False
            self._disk.took()
            took = self._clock.seconds() - began
            pause = 0.0 if core.live.touched else WRITE_SECONDS
            self._next = self._clock.seconds() + max(pause, took / _MOST_OF_TIME)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _file_in_place(self) -> SnapshotFile:
        if self._file is not None and not self._file.is_there():
            self.close()
        if self._file is None:
            self._file = self._open()
            self._all_devices = True
        return self._file

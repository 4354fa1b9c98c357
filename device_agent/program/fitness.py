"""Whether an agent can do its work, as its disk and its status tell from outside."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from fleetledger.device_agent.home.status_file import STATE_FOLDER, Status, is_running
from fleetledger.runtime.problems import HELD

STALE_SECONDS = 30.0
"""A status older than this is of an agent that does not answer any more."""
_LEAST_FREE = 256 << 10
"""Free bytes below which the database has no room for what must not be lost."""
_BUSY_SECONDS = 1.0


def is_answering(status: Status, age: float) -> bool:
    """Whether the process that wrote a status `age` seconds ago runs and goes on to write it."""
    return is_running(status) and age < STALE_SECONDS


def hindrances(home: Path, status: Status | None, age: float) -> Iterator[str]:
    """Yield what keeps the agent from its work, one sentence each; nothing where all is well."""
    if status is not None and not is_running(status):
        why = f": {status.ended}" if status.ended else ""
        yield f"process {status.process} has ended{why}"
    elif status is not None and not is_answering(status, age):
        yield f"process {status.process} has written no status for {age:.0f} s"
    state_folder = home / STATE_FOLDER
    if os.access(state_folder, os.R_OK | os.X_OK):  # else its own user has to ask
        yield from _disk(state_folder)
        yield from _database(state_folder / "agent.db")
    if status is not None:
        yield from (str(problem) for problem in status.problems if problem.hinders)


def _disk(folder: Path) -> Iterator[str]:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if found.f_flag & os.ST_RDONLY:
        yield f"{folder}: the file system is read-only; look at the disk's health"
    elif free < _LEAST_FREE:
        yield f"{folder}: the disk is full, {free} bytes are free; free some space"
    elif found.f_files and not found.f_favail:
        yield f"{folder}: the disk takes no more files; delete some"


def _database(path: Path) -> Iterator[str]:
    """Say whether the database can be locked for writing, as a commit would."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as db:
            db.execute(f"PRAGMA busy_timeout = {round(_BUSY_SECONDS * 1000)}")
            db.execute("BEGIN IMMEDIATE")
            db.rollback()
    except sqlite3.OperationalError as error:
        yield f"{path}: " + (HELD if "locked" in str(error) else f"cannot be written: {error}")
    except sqlite3.Error as error:
        yield f"{path}: cannot be written: {error}"

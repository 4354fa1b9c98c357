"""Leases of published models: a shared lock on a folder, which the kernel frees with its holder.

Whoever reads a folder holds `flock(LOCK_SH)` on it. The agent deletes a folder only with
`LOCK_EX`, and gives it another name under that lock; so a reader looks, once it holds its lock,
whether the folder still has its name.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from pathlib import Path

from fleetledger.device_agent.errors import NoModelError

CURRENT = "current"
"""A link in the agent's home to the folder of the active model."""
_TRIES, _PAUSE = 200, 0.005
"""For a folder that is replaced at this moment; together a second."""


class ModelLease:
    """A folder that stays while this is there, or until the process ends."""

    def __init__(self, folder: Path, handle: int) -> None:
        self.folder = folder
        """The folder itself, with no link in it that could move."""
        self.release = weakref.finalize(self, os.close, handle)
        """Ends the lease; nothing when it has ended."""


def current_folder(home: Path) -> Path:
    """Return where `current` leads; raise `NoModelError` where there is none."""
    try:
        return home / (home / CURRENT).readlink()
    except OSError as error:
        raise NoModelError(
            f"{home / CURRENT}: {error.strerror}: no model is active here; let the agent run until "
            "it has one (`fleetledger agent status`)"
        ) from error


def take_lease(home: Path) -> ModelLease:
    """Lease the folder to which `current` leads; raise `NoModelError` where there is none."""
    for _ in range(_TRIES):
        lease = _try(current_folder(home))
        if lease is not None:
            return lease
        time.sleep(_PAUSE)
    raise NoModelError(
        f"{current_folder(home)}: no model that can be leased; see whether the agent runs "
        "(`fleetledger agent status`) and whether another program locks that folder"
    )


def leave_unless_leased(folder: Path, elsewhere: Path) -> bool:
    """Move a folder out of the readers' way; return whether nobody held a lease of it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.replace(elsewhere)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _try(folder: Path) -> ModelLease | None:
    """Return a lease; None where the folder is on its way out, or not there."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError as error:
        raise NoModelError(
            f"{folder}: this user may not read it: {error.strerror}; run as the agent's user, or "
            "as a member of its group"
        ) from error
    except OSError:
        return None
    lease = ModelLease(folder, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return lease
    except OSError:
        pass
    lease.release()
    return None

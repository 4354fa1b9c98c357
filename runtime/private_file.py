"""Files that only their owner reads: keys and passwords."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fleetledger.runtime.whole_file import write_whole

OWNER_ALONE, OWNER_AND_GROUP = 0o700, 0o750


def make_home(home: Path, mode: int = OWNER_ALONE) -> None:
    """Make a program's folder with `mode`; one that is there stays. Raises `OSError`."""
    home.mkdir(mode=mode, parents=True, exist_ok=True)


def keep_private(home: Path, mode: int = OWNER_ALONE) -> str:
    """Take rights beyond `mode` away from a folder, and from what this process makes.

    Returns as `restrict` does.
    """
    only_for_us()
    return restrict(home, mode)


def only_for_us() -> None:
    """Let other users read nothing of what this process makes from here on."""
    os.umask(0o027)


def restrict(home: Path, mode: int = OWNER_ALONE) -> str:
    """Take rights beyond `mode` away from a folder.

    Returns a sentence where others could have read the folder, else an empty text.
    """
    found = stat.S_IMODE(home.stat().st_mode)
    if not found & ~mode & 0o777:
        return ""
    try:
        home.chmod(found & mode)
    except OSError as error:
        return (
            f"{home}: other users of this machine may read it (mode {found:04o}), and that cannot "
            f"be changed: {error.strerror}; run `chmod {mode:04o} {home}` as its owner"
        )
    return (
        f"{home}: other users of this machine could read it (mode {found:04o}); it has mode "
        f"{found & mode:04o} from here on"
    )


def write_private(path: Path, data: bytes) -> None:
    """Replace the file at `path`, mode 0600; nobody ever reads half of it. Raises `OSError`."""
    write_whole(path, data, 0o600)

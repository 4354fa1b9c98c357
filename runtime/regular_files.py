"""Regular files alone: everything else in a folder of the owner's may hold a reader for ever.

A named pipe waits for somebody who writes, a terminal for somebody who types, and opening a device
may do something. So a name is looked at before it is opened, and once more when it is open, since
it may have been replaced in between.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class NotRegularError(OSError):
    """The name is of something that is no regular file, or of a link to nothing."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EINVAL, f"{what}, and only regular files are read", str(path))


def regular_status(path: Path) -> os.stat_result:
    """Return what is known of a regular file, which a link may lead to.

    Raises `NotRegularError` for anything else, `FileNotFoundError` where nothing has the name, and
    `OSError`.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise NotRegularError(path, "a link to nothing") from None
        raise
    _check(path, status)
    return status


def open_regular(path: Path) -> BinaryIO:
    """Return a regular file, open for reading; raise as `regular_status` does."""
    regular_status(path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(handle))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """Return the first `most` bytes of a regular file; raise as `regular_status` does."""
    with open_regular(path) as file:
        return file.read(most)


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
        raise NotRegularError(path, kind)

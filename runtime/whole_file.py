"""Files that another program may read at any moment: whole or not there, never in between."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes | str, mode: int = 0o666) -> None:
    """Replace the file at `path` in one step; text is UTF-8. Raises an `OSError` that names `path`.

    The bytes are on the disk before the name is. `mode` is that of a new file, less the umask.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    # Of two programs that write at once each has its own, and the later one stays.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):  # it names the file beside, which the caller does not know
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise

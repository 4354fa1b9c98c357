"""Second names of files in the blob folder, which take no space of their own."""

from __future__ import annotations

import errno
import stat
from contextlib import suppress
from pathlib import Path

from fleetledger.device_agent.home.store.blobs import file_digest, write_durably
from fleetledger.schemas.values import Digest

_NO_SECOND_NAMES = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}
_WRITING = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def link_blob(path: Path, blob: Path) -> None:
    """Have a blob under another name too, where nobody writes into it by mistake."""
    try:
        path.hardlink_to(blob)
    except OSError as error:
        if error.errno not in _NO_SECOND_NAMES:
            raise
        write_durably(path, blob.read_bytes())
    with suppress(OSError):
        path.chmod(path.stat().st_mode & ~_WRITING)


def holds_blob(path: Path, blob: Path, digest: Digest) -> bool:
    """Whether a file is a blob, or a copy of it; raise `OSError` where one is not there."""
    return path.samefile(blob) or file_digest(path) == digest

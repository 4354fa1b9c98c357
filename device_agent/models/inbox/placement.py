"""Placement of a file: under a second name, durably, and over nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.device_agent.errors import LabelError
from fleetledger.device_agent.home.store.blobs import file_digest, sync_folder, write_durably
from fleetledger.schemas.values import Digest

_NO_SECOND_NAMES = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}


def place_file(source: Path, target: Path, digest: Digest) -> None:
    """Give a file a second name, durably; where the disk knows no such thing, copy it.

    Raises `LabelError` where another file is there, or the disk refuses.
    """
    with disk_told(target):
        try:
            _sync(source)
            target.hardlink_to(source)
        except FileExistsError:
            if file_digest(target) != digest:
                text = f"{target}: is another file; move it away, and try again"
                raise LabelError(text) from None
        except OSError as error:
            if error.errno not in _NO_SECOND_NAMES:
                raise
            _copy(source, target)
        sync_folder(target.parent)


def _sync(path: Path) -> None:
    """Have a file's content last; the inbox, which may lose its last image, waits for no disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy(source: Path, target: Path) -> None:
    try:
        write_durably(target, source.read_bytes())
    except OSError:
        target.with_name(f"{target.name}.new").unlink(missing_ok=True)
        raise


@contextmanager
def disk_told(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into a `LabelError` with the way out."""
    try:
        yield
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> LabelError:
    return LabelError(
        f"{path}: {error.strerror}; the image waits as before. Free some space, mount the disk, or "
        "mend the folder's permissions"
    )

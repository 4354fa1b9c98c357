"""A file system of a few MiB that is really full, and has room again, when a test says so."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PIECE = 4096


class SmallDisk:
    """A mounted file system; `fill` takes what is left of it, `empty` gives that back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, but: int = 0) -> None:
        """Leave `but` bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * _PIECE)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            file.truncate(max(0, file.tell() - but))

    def empty(self) -> None:
        """Make room."""
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a file system of so many MiB at `folder`; skip the test where that is not allowed."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(["mount", *options], check=False, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

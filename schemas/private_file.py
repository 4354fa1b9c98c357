"""Files that only their owner reads: keys and passwords."""

from __future__ import annotations

from pathlib import Path

from schemas.whole_file import write_whole


def write_private(path: Path, data: bytes) -> None:
    """Replace the file at `path`, mode 0600; nobody ever reads half of it. Raises `OSError`."""
    write_whole(path, data, 0o600)

"""Files of a run that survive a crash: whole or not there, and lines that are never torn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.coordinator.ledger.folder_store import fsync_file, fsync_folder


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, whole."""
    with written_beside(path) as beside:
        beside.write_bytes(data)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the place of `path` when all of it is on the disk."""
    beside = path.with_name(f".{path.name}")
    yield beside
    fsync_file(beside)
    beside.replace(path)
    fsync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Add a line at the end; it is on the disk when this returns."""
    with path.open("ab") as file:
        file.write(line.encode("utf-8") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(path.parent)


def whole_lines(path: Path) -> list[str]:
    """Return the lines of a file, none if it is missing; one that a crash tore is cut off."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    kept = data[: data.rfind(b"\n") + 1]
    if len(kept) < len(data):
        replace_file(path, kept)
    return kept.decode("utf-8").splitlines()

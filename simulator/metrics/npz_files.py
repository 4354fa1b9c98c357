"""Arrays in a file of a run's folder, as numpy writes them; the file may be torn or another's."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import MetricsError

_UNREADABLE = (OSError, EOFError, ValueError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error)


def names_in_npz(path: Path) -> tuple[str, ...]:
    """Return the names of a file's arrays; raise `MetricsError` where it is none of numpy's."""
    try:
        with zipfile.ZipFile(path) as file:
            return tuple(name.removesuffix(".npy") for name in file.namelist())
    except _UNREADABLE as error:
        raise MetricsError(f"{path}: no answers of a run: {error}; run it again") from error


def read_npz(path: Path, names: Sequence[str], most_bytes: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of these names, which must be all; nothing in them is carried out.

    Raises `MetricsError` where the file is missing, torn, holds others, or unpacks to more than
    `most_bytes`.
    """
    try:
        with zipfile.ZipFile(path) as file:
            size = sum(item.file_size for item in file.infolist())
            held = {item.filename.removesuffix(".npy") for item in file.infolist()}
        if size > most_bytes:
            raise ValueError(f"{size} bytes of arrays, more than {most_bytes}")
        if held != set(names):
            raise ValueError(f"it holds {', '.join(sorted(held)) or 'nothing'}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in names}
    except _UNREADABLE as error:
        raise MetricsError(
            f"{path}: no file of this run with {', '.join(names)}: {error}; run it again"
        ) from error

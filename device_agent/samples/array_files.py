"""Files of arrays, of which one may hold many samples along its first axis.

A sample is named by its file, or by `FILE#ROW`, counted from 0. Its content, and so its digest, is
that of `learning.numerics.arrays.array_content`: the same however it is stored.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from math import prod
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fleetledger.device_agent.kinds import ARRAY, MAX_FILE_BYTES
from fleetledger.learning.errors import ArrayError
from fleetledger.learning.numerics.arrays import PARQUET, array_content, read_array, samples_in
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.regular_files import open_regular

Shape = tuple[int, ...]
_KEPT_BYTES = 32 << 20
"""Arrays of files that stay in memory for their other rows; the last one stays however large."""
_ROW = re.compile(r"(.+)#(0|[1-9][0-9]{0,8})")


def file_of(path: str) -> str:
    """Return the path of the file in which a sample lies."""
    return _split(path)[0]


def rows_of(path: Path, shape: Shape | None) -> int | None:
    """Return how many samples of `shape` a file holds; None where it is one sample itself.

    The rows of Parquet are samples in any case. Raises `ArrayError` for samples of another shape,
    `OSError`.
    """
    values = _FILES.array(path)
    if path.suffix.lower() == PARQUET:
        return len(values)
    rows = samples_in(values.shape, shape)
    if shape is not None and rows is None and values.shape not in (shape, (prod(shape),)):
        raise ArrayError(
            f"array: shape {list(values.shape)}, where `[data] shape` says {list(shape)}; give "
            f"such arrays, or [N, {', '.join(map(str, shape))}] for N of them"
        )
    return rows


def samples_of(path: Path, shape: Shape | None) -> list[Path]:
    """Return the samples of a file; the file itself where it cannot be read as what it holds."""
    try:
        rows = rows_of(path, shape)
    except (ArrayError, OSError):
        return [path]
    return [path] if rows is None else [Path(f"{path}#{row}") for row in range(rows)]


def read_content(path: Path) -> bytes:
    """Return the content of one sample; raise `ArrayError`, `OSError` where there is none such."""
    name, row = _split(str(path))
    values = _FILES.array(Path(name))
    if row is None:
        return array_content(values)
    if not values.ndim or row >= len(values):
        raise FileNotFoundError(2, f"the file has no row {row}", str(path))
    return array_content(values[row])


def _split(path: str) -> tuple[str, int | None]:
    found = _ROW.fullmatch(path)
    if found is None or Path(found[1]).suffix.lower() not in ARRAY.suffixes:
        return path, None
    return found[1], int(found[2])


class _Files:
    """Arrays of files that were read last; for any thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Path, tuple[tuple[int, int, int], npt.NDArray[Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def array(self, path: Path) -> npt.NDArray[Any]:
        """Return the array of a file as it is now; raise `ArrayError`, `OSError`."""
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
            with self._lock:
                kept = self._kept.get(path)
                if kept is not None and kept[0] == state:
                    self._kept.move_to_end(path)
                    return kept[1]
            if status.st_size > MAX_FILE_BYTES:
                size = count_of(status.st_size, "byte")
                raise ArrayError(f"array: {size}, more than {MAX_FILE_BYTES}; {ARRAY.smaller}")
            data = file.read(MAX_FILE_BYTES)
        values = read_array(data, path.suffix.lower())
        self._keep(path, state, values)
        return values

    def _keep(self, path: Path, state: tuple[int, int, int], values: npt.NDArray[Any]) -> None:
        with self._lock:
            self._kept.pop(path, None)
            self._kept[path] = (state, values)
            held = sum(array.nbytes for _, array in self._kept.values())
            while held > _KEPT_BYTES and len(self._kept) > 1:
                held -= self._kept.popitem(last=False)[1][1].nbytes


_FILES = _Files()

"""Which classes are in which mask of a folder, found out once and then kept.

All masks of a data set must be opened for that. The result lies in the cache folder and holds as
long as names, sizes and times of the files stay; deleting it costs opening them once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from device_agent.store.blobs import write_durably
from schemas.values import Digest
from simulator.datasets.cache_folder import cache_folder
from simulator.errors import DatasetError

Presence = NDArray[np.bool_]


def kept_presence(
    root: Path, masks: Sequence[str], classes: int, find: Callable[[int], Presence]
) -> Presence:
    """Return which classes are in which mask, (N, classes).

    `masks` are paths relative to `root`, and `find` opens the mask of a number, on all cores.
    Raises `DatasetError` for files that are gone and for a damaged memory.
    """
    file = cache_folder("presence") / f"{_digest(root, masks, classes)}.bits"
    try:
        if file.exists():
            return _unpack(file, len(masks), classes)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            rows = list(pool.map(find, range(len(masks))))
        found = np.array(rows, np.bool_).reshape(len(masks), classes)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, np.packbits(found).tobytes())
    except OSError as error:
        raise DatasetError(
            f"{error.filename}: cannot be used: {error.strerror}; mend its permissions"
        ) from error
    return found


def _unpack(file: Path, masks: int, classes: int) -> Presence:
    bits = np.unpackbits(np.frombuffer(file.read_bytes(), np.uint8))
    if not masks * classes <= len(bits) < masks * classes + 8:
        raise DatasetError(f"{file}: is damaged; delete this file, it is only a cache")
    return bits[: masks * classes].astype(np.bool_).reshape(masks, classes)


def _digest(root: Path, masks: Sequence[str], classes: int) -> Digest:
    lines = [f"{root.resolve()}", f"{classes}"]
    for path in masks:
        try:
            status = (root / path).stat()
        except OSError as error:
            raise DatasetError(
                f"{root / path}: cannot be read: {error.strerror}; put it back"
            ) from error
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return Digest.of("\n".join(lines).encode("utf-8", "surrogateescape"))

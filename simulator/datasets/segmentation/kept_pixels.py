"""How many pixels of each class the masks of a folder have, found out once and then kept.

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

from fleetledger.device_agent.store.blobs import write_durably
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.errors import DatasetError

Pixels = NDArray[np.int64]
_KEPT = np.dtype("<u4")
"""A picture of more pixels is refused long before."""


def kept_pixels(
    root: Path, masks: Sequence[str], classes: int, count: Callable[[int], Pixels]
) -> Pixels:
    """Return the pixels of each class in each mask, (N, classes).

    `masks` are paths relative to `root`, and `count` opens the mask of a number, on all cores.
    Raises `DatasetError` for files that are gone and for a damaged memory.
    """
    file = cache_folder("mask-pixels") / f"{_digest(root, masks, classes)}.counts"
    try:
        if file.exists():
            return _read(file, len(masks), classes)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            rows = list(pool.map(count, range(len(masks))))
        found = np.array(rows, np.int64).reshape(len(masks), classes)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, found.astype(_KEPT).tobytes())
    except OSError as error:
        raise DatasetError(
            f"{error.filename}: cannot be used: {error.strerror}; mend its permissions"
        ) from error
    return found


def _read(file: Path, masks: int, classes: int) -> Pixels:
    data = file.read_bytes()
    if len(data) != masks * classes * _KEPT.itemsize:
        raise DatasetError(f"{file}: is damaged; delete this file, it is only a cache")
    return np.frombuffer(data, _KEPT).astype(np.int64).reshape(masks, classes)


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

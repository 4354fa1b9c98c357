"""All answers of a round, held until they are read together in blocks of columns.

They are kept in memory up to `IN_MEMORY`, beyond that in a file without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from fleetledger.learning.numerics.grids import Integers

IN_MEMORY = 64 << 20
"""Bytes of answers that are kept in memory."""
_BLOCK_VALUES = 1 << 19
"""Values of a block of columns, of all answers together: 2 MiB."""


class AnswerRows:
    """Flat arrays of answers, int32 (n,) each, to be read in blocks of columns."""

    def __init__(self, size: int, in_memory: int = IN_MEMORY) -> None:
        self._size = size
        self._most = max(1, in_memory // max(1, 4 * size))
        self._rows: list[Integers] = []
        self._file: IO[bytes] | None = None
        self._stored = 0

    def __len__(self) -> int:
        return self._stored + len(self._rows)

    def append(self, values: Integers) -> None:
        """Keep an answer; raise `OSError` where a temporary file has no room."""
        self._rows.append(values)
        if len(self._rows) > self._most:
            self._store()

    def blocks(self) -> Iterator[tuple[slice, Integers]]:
        """Yield the columns in order, with the values (k, b) of all answers."""
        width = max(1, _BLOCK_VALUES // max(1, len(self)))
        for start in range(0, self._size, width):
            place = slice(start, min(start + width, self._size))
            yield place, self._columns(place)

    def whole(self) -> Integers:
        """Return all answers (k, n)."""
        return self._columns(slice(0, self._size))

    def _columns(self, place: slice) -> Integers:
        found = np.empty((len(self), place.stop - place.start), np.int32)
        for row in range(self._stored):
            assert self._file is not None
            self._file.seek(4 * (row * self._size + place.start))
            self._file.readinto(found[row].data)  # type: ignore[attr-defined]
        for row, values in enumerate(self._rows, self._stored):
            found[row] = values[place]
        return found

    def _store(self) -> None:
        if self._file is None:
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - closed when nobody needs it
        self._file.seek(4 * self._stored * self._size)
        for values in self._rows:
            self._file.write(np.ascontiguousarray(values).data)
        self._stored += len(self._rows)
        self._rows = []

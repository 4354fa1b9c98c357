"""What a verification has looked at, kept until it is done, so that another one can go on.

    ledger.db.verified      a line of JSON: of which history; then a line for each whole range

The file says what was seen then. Who goes on from it does not look at these entries again, so that
it is for somebody who was interrupted, and not for somebody who wants to know now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pydantic import Field, ValidationError

from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger.columns import Columns
from fleetledger.coordinator.ledger.ranges import RANGE, RangeWalk
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.values import Digest

_FORMAT = 1
_MOST_LINE_BYTES = 4 << 20
_WALKS = Columns(RangeWalk, {})


class _Head(Strict):
    """Which history was looked at."""

    format: int = Field(default=_FORMAT, ge=_FORMAT, le=_FORMAT)
    size: int = Field(ge=0)
    root: Digest


class VerifyProgress:
    """The file of one ledger; where it cannot be written, nothing is kept."""

    def __init__(self, ledger_file: Path) -> None:
        self._path = ledger_file.with_name(f"{ledger_file.name}.verified")
        self._file: IO[bytes] | None = None

    def begin(self, ledger: LedgerReader, *, resume: bool) -> dict[int, RangeWalk]:
        """Return the ranges that were looked at before, by their first entries; begin to note more.

        Without `resume`, and where the file is of another history, none were.
        """
        done = self._read(ledger) if resume else {}
        with contextlib.suppress(OSError):
            self._file = self._path.open("wb")
            head = _Head(size=ledger.size, root=ledger.root)
            self._file.write(head.model_dump_json().encode() + b"\n")
            for walk in done.values():
                self.add(walk)
        return done

    def add(self, walk: RangeWalk) -> None:
        """Note a range, if it is whole and all of it fits."""
        if self._file is not None and _is_done(walk):
            with contextlib.suppress(OSError):
                self._file.write(_WALKS.write(walk) + b"\n")
                self._file.flush()

    def close(self, *, finished: bool) -> None:
        """End it; there is nothing to go on from where it has finished."""
        if self._file is not None:
            self._file.close()
            if finished:
                with contextlib.suppress(OSError):
                    self._path.unlink()

    def _read(self, ledger: LedgerReader) -> dict[int, RangeWalk]:
        try:
            with self._path.open("rb") as file:
                head = _Head.model_validate_json(file.readline(_MOST_LINE_BYTES))
                if head.size > ledger.size or ledger.root_at(head.size) != head.root:
                    return {}
                return {walk.start: walk for walk in _walks(file)}
        except (OSError, ValidationError, ProofError, LookupError):
            return {}


def _walks(file: IO[bytes]) -> Iterator[RangeWalk]:
    """Yield the ranges of a file, up to a line that is torn."""
    while line := file.readline(_MOST_LINE_BYTES):
        try:
            walk = _WALKS.read(line)
        except SnapshotError:
            return
        if _is_done(walk):
            yield walk


def _is_done(walk: RangeWalk) -> bool:
    return walk.size == RANGE and walk.nodes_fit and walk.mismatch is None

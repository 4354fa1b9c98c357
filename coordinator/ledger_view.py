"""A ledger as data: its entries in their order, and as a table of pandas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetledger.coordinator.errors import MissingLibraryError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.reports import ShownEntry
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.pip_command import pip_install

if TYPE_CHECKING:
    import pandas as pd

_POLL_SECONDS = 0.2


class LedgerView:
    """The entries of a coordinator's ledger, which may grow meanwhile; for any thread.

    `len(view)` counts them, `view[index]` is one of them (from the end where it is negative), and
    iteration goes over those that were there at its start. Raises `LedgerError` where there is no
    ledger.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def __len__(self) -> int:
        with ledger_of(self._home) as ledger:
            return ledger.size

    def __getitem__(self, index: int) -> Entry:
        with ledger_of(self._home) as ledger:
            place = index + ledger.size if index < 0 else index
            if not 0 <= place < ledger.size:
                held = count_of(ledger.size, "entry", "entries")
                raise IndexError(f"index: {index} is not in the ledger of {held}")
            return ledger.entry(place)

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def entries(self, *, start: int = 0, follow: bool = False) -> Iterator[Entry]:
        """Yield the entries from index `start`; with `follow` go on for ever with new ones."""
        with ledger_of(self._home) as ledger:
            while True:
                stop = ledger.size
                yield from ledger.entries(start, stop)
                if not follow:
                    return
                start = max(start, stop)
                time.sleep(_POLL_SECONDS)

    def to_frame(self, kind: str | None = None) -> pd.DataFrame:
        """Return a table of pandas with an entry a row, by the entry's index.

        Its columns are those of `ledger tail --json`, with the time in UTC, and `body`. Of one
        `kind`, such as "contribution.accepted", each field of the body is a column `body.FIELD`.
        Raises `MissingLibraryError` without pandas.
        """
        try:
            import pandas  # noqa: PLC0415 - heavy, and an extra
        except ModuleNotFoundError as error:
            raise MissingLibraryError(
                f"to_frame needs {error.name}: {pip_install('frames')}"
            ) from error
        rows = [
            _row(entry, spread=kind is not None) for entry in self if kind in (None, entry.kind)
        ]
        columns = [*ShownEntry.model_fields, *([] if kind is not None else ["body"])]
        frame = pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=columns)
        frame["time"] = pandas.to_datetime(frame["time"], unit="ns", utc=True)
        return frame.set_index("index")


def _row(entry: Entry, *, spread: bool) -> dict[str, Any]:
    body = {f"body.{name}": value for name, value in entry.body.items()}
    return {
        **dict(ShownEntry.of(entry)),
        "time": entry.time_ns,
        **(body if spread else {"body": entry.body}),
    }

"""Contributions that counted at a size of the ledger.

A model names the size of the ledger that it was made of, and no list. A step reads the entries
since the step before it. Only a new reader, and one that is asked for an earlier size, begins with
the first entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Change
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.entries import COLUMNS, Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.coordinator.topics.contributions.entries import CONTRIBUTIONS
from fleetledger.coordinator.topics.contributions.state import (
    ContributionsState,
    CountedPart,
    CountedParts,
)
from fleetledger.coordinator.topics.lineages.state import LineagesState

_KIND = COLUMNS.index("kind")


@dataclass(eq=False)
class _MovedParts(CountedParts):
    """The same, with the entries of contributions that came into a sum or left it."""

    moved: set[int] = field(default_factory=set)

    def put(self, index: int, item: CountedPart) -> None:
        super().put(index, item)
        self.moved.add(index)

    def _move(self, index: int, item: CountedPart, by: int, at: int) -> None:
        super()._move(index, item, by, at)
        self.moved.add(index)


@dataclass
class HeldParts:
    """Fold of the entries about contributions, up to a size of the ledger."""

    size: int = 0
    """Number of entries that were folded."""

    def __post_init__(self) -> None:
        self._counted = _MovedParts()
        self._state = ContributionsState(LineagesState(), ClassRegistry(), counted=self._counted)
        self._changes: dict[type[EntryBody], Change] = dict(CONTRIBUTIONS.on(self._state))
        self._kinds = {body.kind for body in self._changes}

    @property
    def counted(self) -> CountedParts:
        """Contributions that are held, with their sums; to read."""
        return self._state.counted

    def follow(self, ledger: LedgerReader, size: int) -> set[int]:
        """Fold the entries up to `size`; return the contributions that may have moved by them.

        Raises `ValueError` for a size that it is beyond.
        """
        if size < self.size:
            raise ValueError(f"size: {size} is before {self.size}; begin anew")
        moved: set[int] = set()
        for row in ledger.rows(self.size, size):
            if row[_KIND] in self._kinds:
                moved.update(self.apply(Entry.from_row(row)))
        self.size = size
        return moved

    def apply(self, entry: Entry) -> tuple[int, ...]:
        """Fold one entry; return the contributions that may have moved by it."""
        if entry.kind not in self._kinds:
            self.size = entry.index + 1
            return ()
        at = EntryContext(entry.index, entry.device, entry.time_ns)
        return self.apply_body(read_entry(entry.kind, entry.body), at)

    def apply_body(self, body: EntryBody, at: EntryContext) -> tuple[int, ...]:
        """Fold one entry by its body; return the contributions that may have moved by it."""
        self.size = at.index + 1
        change = self._changes.get(type(body))
        if change is None:
            return ()
        change(body, at)
        moved = tuple(sorted(self._counted.moved))
        self._counted.moved.clear()
        return moved

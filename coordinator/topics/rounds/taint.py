"""Which models descend from a device's answers to rounds.

Within a lineage everything that follows a mean descends from it; and so do the lineages of frozen
networks that were made of it. A round that came to nothing later is not told apart: what descends
is never left out, and may be named where a round began again from what was before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetledger.coordinator.topics.lineages.state import LineagesState, Span
from fleetledger.schemas.values import DeviceId


@dataclass
class Taint:
    """What is known of means and retracted answers."""

    lineages: LineagesState = field(repr=False, compare=False)
    """A part of the state before this one, to read from."""
    means: list[int] = field(default_factory=list)
    """Entries of averaged rounds, in their order."""
    marks: list[tuple[DeviceId, int]] = field(default_factory=list)
    """Devices whose answers were retracted, with the entry of the first mean of them."""

    def descends(self, index: int, first: int) -> bool:
        """Whether what an entry records descends from the mean that entry `first` records."""
        return index >= first and self._span(index).index in self._descending_spans(first)

    def devices(self, index: int) -> tuple[DeviceId, ...]:
        """Return the devices of whose retracted answers an entry's model descends, sorted."""
        if not self.marks:
            return ()
        return tuple(sorted({name for name, first in self.marks if self.descends(index, first)}))

    def means_after(self, first: int) -> int:
        """Count the rounds from a mean on that descend from it, itself among them."""
        return sum(self.descends(index, first) for index in self.means)

    def _descending_spans(self, first: int) -> set[int]:
        found = {self._span(first).index}
        for span in self.lineages.spans:
            if span.parent in found and span.index > first:
                found.add(span.index)
        return found

    def _span(self, index: int) -> Span:
        return _last(span for span in self.lineages.spans if span.index <= index)


def _last(spans: Iterable[Span]) -> Span:
    *_, last = spans
    return last

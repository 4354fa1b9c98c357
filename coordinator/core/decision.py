"""A decision: entries to commit, then requests to carry out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleetledger.coordinator.core.entry import COORDINATOR, OPERATOR, EntryBody, NewEntry
from fleetledger.coordinator.core.requests import Request
from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class Decision:
    """What the rules make of one input."""

    entries: tuple[NewEntry, ...] = ()
    requests: tuple[Request, ...] = ()

    def __add__(self, other: Decision) -> Decision:
        """Put the other decision after this one."""
        if not (other.entries or other.requests):
            return self  # nearly every sum with what follows from an answer
        return Decision(self.entries + other.entries, self.requests + other.requests)


def record(body: EntryBody, *, actor: str = COORDINATOR) -> Decision:
    """Return the decision to commit one entry that no device made."""
    return Decision(entries=(NewEntry(body, actor),))


def record_for(device: DeviceId, body: EntryBody) -> Decision:
    """Return the decision to commit one entry that `device` made."""
    return Decision(entries=(NewEntry(body, str(device), device),))


def made_by(actor: str, decision: Decision) -> Decision:
    """Return the decision with `actor` in place of the operator whose name nobody knows."""
    if actor == OPERATOR:
        return decision
    entries = (
        replace(entry, actor=actor) if entry.actor == OPERATOR else entry
        for entry in decision.entries
    )
    return Decision(tuple(entries), decision.requests)


def ask(*requests: Request) -> Decision:
    """Return the decision to carry out requests and commit nothing."""
    return Decision(requests=requests)


def together(decisions: Iterable[Decision]) -> Decision:
    """Join decisions in their order."""
    entries: list[NewEntry] = []
    requests: list[Request] = []
    for decision in decisions:
        entries.extend(decision.entries)
        requests.extend(decision.requests)
    return Decision(tuple(entries), tuple(requests))

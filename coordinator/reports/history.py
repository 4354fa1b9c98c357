"""Kinds of entry by what they are about, and entries that need a person."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from fleetledger.coordinator.core.state import KINDS, TOPICS
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader

_ABOUT: Mapping[str, tuple[str, ...]] = {
    "stages": ("stages", "classes"),
    "contributions": ("contributions",),
    "rounds": ("rounds", "proxy"),
    "models": ("models", "lineages"),
    "devices": ("devices",),
    "trust": ("keys", "releases"),
    "operator": ("clock", "done"),
}
"""What entries are about, to the topics whose entries are."""

GROUPS: Mapping[str, frozenset[str]] = {
    about: frozenset(
        kind.body.kind for topic in TOPICS if topic.name in names for kind in topic.kinds
    )
    for about, names in _ABOUT.items()
}
"""Kinds of entry by what they are about; every kind is in one of these."""

_TROUBLES = " UNION ALL ".join(
    f"SELECT idx FROM entry WHERE kind = '{name}'"  # noqa: S608 - constants
    + ("" if kind.trouble is True else f" AND CASE WHEN json_valid(body) THEN {kind.trouble} END")
    for name, kind in KINDS.items()
    if kind.trouble is not False
)


def troubles(ledger: LedgerReader, before: int, limit: int) -> list[Entry]:
    """Return the newest entries below an index that need a person, or did, newest first."""
    found = (index for index in _all_troubles(ledger) if index < before)
    return [ledger.entry(index) for index in islice(found, limit)]


def trouble_count(ledger: LedgerReader) -> int:
    """Return how many entries there are that need a person, or did."""
    return len(_all_troubles(ledger))


def _all_troubles(ledger: LedgerReader) -> list[int]:
    rows = ledger.db.execute(f"{_TROUBLES} ORDER BY 1 DESC")
    return [index for (index,) in rows.fetchall()]

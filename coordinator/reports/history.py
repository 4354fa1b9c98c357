"""Entries in a sentence each, by what they are about, and those that need a person."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from pydantic import ValidationError

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.state import KINDS, TOPICS
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.runtime.errors import shorten

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


def sentence_of(entry: Entry) -> str:
    """Return one sentence about an entry; the fields of one that is not of this program."""
    kind = KINDS.get(entry.kind)
    if kind is None:
        return _listed(entry)
    try:
        body: EntryBody = kind.body.model_validate(entry.body)
    except ValidationError:
        return _listed(entry)  # written by another version of this program
    return body.say(EntryContext(entry.index, entry.device, entry.time_ns))


def _listed(entry: Entry) -> str:
    about = f" about {entry.device}" if entry.device and entry.device != entry.actor else ""
    fields = ", ".join(f"{name} = {shorten(value)}" for name, value in entry.body.items())
    return f"{entry.actor} recorded {entry.kind}{about}" + (f": {fields}" if fields else "")

"""The ledger's entries as people look for them, newest first: by what they are about, by a word."""

from __future__ import annotations

from collections.abc import Mapping

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

_FIND = """
SELECT idx FROM entry WHERE idx < ?
AND (? IS NULL OR kind IN (SELECT value FROM json_each(?)))
AND (? IS NULL OR device = ? OR kind = ? OR instr(lower(body), lower(?)))
ORDER BY idx DESC LIMIT ?
"""
_TROUBLES = " UNION ALL ".join(
    f"SELECT idx FROM entry WHERE kind = '{name}'"  # noqa: S608 - constants
    + ("" if kind.trouble is True else f" AND CASE WHEN json_valid(body) THEN {kind.trouble} END")
    for name, kind in KINDS.items()
    if kind.trouble is not False
)


def newest_entries(
    ledger: LedgerReader,
    *,
    before: int,
    limit: int,
    kinds: frozenset[str] | None = None,
    word: str | None = None,
) -> list[Entry]:
    """Return entries below an index, newest first: of some kinds, and with a word.

    A word is a device, a kind, or anything that the body has in it.
    """
    listed = None if kinds is None else '["' + '","'.join(sorted(kinds)) + '"]'
    values = [before, listed, listed, word, word, word, word, limit]
    rows = ledger.db.execute(_FIND, values).fetchall()
    return [ledger.entry(index) for (index,) in rows]


def troubles(ledger: LedgerReader, before: int, limit: int) -> list[Entry]:
    """Return the newest entries below an index that need a person, or did, newest first."""
    newest = f"SELECT idx FROM ({_TROUBLES}) WHERE idx < ? ORDER BY 1 DESC LIMIT ?"  # noqa: S608
    rows = ledger.db.execute(newest, [before, limit])
    return [ledger.entry(index) for (index,) in rows.fetchall()]


def trouble_count(ledger: LedgerReader) -> int:
    """Return how many entries there are that need a person, or did."""
    counted = f"SELECT count(*) FROM ({_TROUBLES})"  # noqa: S608 - constants
    return int(ledger.db.execute(counted).fetchone()[0])

"""What devices gave, and the classes it is of, as people look for it."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.schemas.message import Strict


@dataclass(frozen=True)
class ContributionFacts:
    """A contribution, with what became of it."""

    index: int
    time_ns: int
    device: str
    stage: int
    part: int
    revision: int
    state: str
    samples: int
    payload_bytes: int
    left_index: int | None
    """The entry by which it left the sum."""
    classes: dict[str, int]
    """Samples by class."""
    left_out: bool
    """Whether it is not in the sum for now: its device gave too much, or it is set aside."""
    set_aside: str
    """Why it is set aside, with figures and limits; empty where it is not."""


@dataclass(frozen=True)
class ContributionFilter:
    """Which contributions are asked for; None leaves it open."""

    device: str | None = None
    stage: int | None = None
    state: str | None = None
    model: int | None = None
    """A version that was made from them."""
    before: int = 2**62
    """Below which index."""


_WHERE = """
FROM contribution
WHERE contribution.idx < :before AND (:device IS NULL OR contribution.device = :device)
AND (:stage IS NULL OR stage = :stage) AND (:state IS NULL OR state = :state)
AND (:model IS NULL OR (state NOT IN ('answer', 'late') AND contribution.lineage = :lineage
    AND contribution.idx < :size AND coalesce(left_index, :size) >= :size
    AND NOT EXISTS (
        SELECT 1 FROM left_out_part AS part WHERE part.idx = contribution.idx
        AND since < :size AND coalesce(until, :size) >= :size)
    AND NOT EXISTS (
        SELECT 1 FROM set_aside AS part WHERE part.idx = contribution.idx
        AND since < :size AND coalesce(until, :size) >= :size)))
"""
_COLUMNS = """
SELECT contribution.idx, (SELECT time_ns FROM entry WHERE entry.idx = contribution.idx),
    contribution.device, stage, part, revision, state, samples, payload_bytes, left_index,
    (SELECT json_group_object(name, contribution_class.samples) FROM contribution_class
     WHERE contribution_class.idx = contribution.idx),
    coalesce((SELECT why FROM set_aside AS aside
     WHERE aside.idx = contribution.idx AND until IS NULL), '')
"""
_OF_ENTRIES = _WHERE.replace("FROM contribution", "FROM contribution JOIN entry USING (idx)", 1)
_LIST = _COLUMNS + _WHERE + " ORDER BY contribution.idx DESC LIMIT :limit"


def given(ledger: LedgerReader, wanted: ContributionFilter, limit: int) -> list[ContributionFacts]:
    """Return contributions, newest first."""
    rows = ledger.db.execute(_LIST, {**_values(ledger, wanted), "limit": limit}).fetchall()
    outside = left_out(ledger)
    values = [(*row[:10], json.loads(row[10]), row[0] in outside, row[11]) for row in rows]
    return [ContributionFacts(*row) for row in values]


class CountsOverTime(Strict):
    """How many contributions came in each of several spans of equal length, up to now."""

    first_ns: int
    span_ns: int
    counts: tuple[int, ...]
    """Of the last span, which has not ended, so far."""


def over_time(
    ledger: LedgerReader, wanted: ContributionFilter, now_ns: int, span_ns: int, spans: int
) -> CountsOverTime:
    """Return how many came in whole spans of the calendar up to now."""
    first_ns = (now_ns // span_ns - spans + 1) * span_ns
    values = {**_values(ledger, wanted), "before": 2**62, "first": first_ns, "span": span_ns}
    rows = ledger.db.execute(
        f"SELECT (entry.time_ns - :first) / :span, count(*) {_OF_ENTRIES}"
        " AND entry.idx >= :since GROUP BY 1",
        {**values, "since": _since(ledger, first_ns)},
    )
    found = dict(rows.fetchall())
    counts = tuple(int(found.get(place, 0)) for place in range(spans))
    return CountsOverTime(first_ns=first_ns, span_ns=span_ns, counts=counts)


def given_since(ledger: LedgerReader, time_ns: int) -> int:
    """Return how many contributions came since a time; what came earlier is not looked at."""
    query = "SELECT count(*) FROM contribution WHERE idx >= ?"
    return int(ledger.db.execute(query, [_since(ledger, time_ns)]).fetchone()[0])


def _since(ledger: LedgerReader, time_ns: int) -> int:
    """Return the first entry from a time on; times fall only where a calendar was corrected."""

    def time_of(index: int) -> int:
        query = "SELECT time_ns FROM entry WHERE idx = ?"
        return int(ledger.db.execute(query, [index]).fetchone()[0])

    return bisect_left(range(ledger.size), time_ns, key=time_of)


@dataclass(frozen=True)
class StateCount:
    """Contributions that had the same end."""

    state: str
    count: int
    samples: int
    payload_bytes: int
    devices: int


def by_state(ledger: LedgerReader, wanted: ContributionFilter) -> list[StateCount]:
    """Return how many contributions are in which state; the state that is wanted is left open."""
    rows = ledger.db.execute(
        "SELECT state, count(*), sum(samples), sum(payload_bytes),"
        f" count(DISTINCT contribution.device) {_WHERE} GROUP BY state ORDER BY 2 DESC",
        {**_values(ledger, wanted), "state": None, "before": 2**62},
    )
    return [StateCount(*row) for row in rows.fetchall()]


def left_out(ledger: LedgerReader) -> frozenset[int]:
    """Return the contributions that are left out of the sum, or set aside, for now."""
    rows = ledger.db.execute(
        "SELECT idx FROM left_out_part WHERE until IS NULL"
        " UNION SELECT idx FROM set_aside WHERE until IS NULL"
    ).fetchall()
    return frozenset(index for (index,) in rows)


def contributors(ledger: LedgerReader, version: int) -> int:
    """Return how many devices gave what a model was solved of; 0 of a network."""
    wanted = _values(ledger, ContributionFilter(model=version))
    (found,) = ledger.db.execute(
        f"SELECT count(DISTINCT contribution.device) {_WHERE}", wanted
    ).fetchone()
    return int(found)


@dataclass(frozen=True)
class ClassFacts:
    """A registered class."""

    index: int
    name: str
    other_names: tuple[str, ...]
    samples: int
    """Of what is in the sum, and of answers to rounds."""
    contributions: int
    first_stage: int | None
    correct: int
    """Where the model of all devices was measured."""
    total: int


def _values(ledger: LedgerReader, wanted: ContributionFilter) -> dict[str, object]:
    model = state_of(ledger).models.by_version.get(wanted.model or 0)
    solved = None if model is None or model.imported is not None else model.solved
    return {
        "device": wanted.device,
        "stage": wanted.stage,
        "state": wanted.state,
        "model": wanted.model,
        "lineage": None if solved is None else solved.lineage,
        "size": None if solved is None else solved.ledger_size,
        "before": wanted.before,
    }


def class_facts(
    ledger: LedgerReader, counts: dict[str, tuple[int, int]], first: dict[str, int]
) -> list[ClassFacts]:
    """Return every class in the order of its index; `counts` and `first` go by present names."""
    known = state_of(ledger).classes
    samples: dict[str, list[int]] = {}
    given_of = ledger.db.execute(
        "SELECT name, sum(c.samples), count(*) FROM contribution_class AS c"
        " JOIN contribution USING (idx) WHERE state IN ('held', 'answer') GROUP BY name"
    )
    for name, count, parts in given_of.fetchall():
        found = samples.setdefault(known.present(name), [0, 0])
        found[0], found[1] = found[0] + count, found[1] + parts
    return [
        ClassFacts(
            known.indices[name],
            name,
            known.aliases_of(name),
            samples.get(name, [0, 0])[0],
            samples.get(name, [0, 0])[1],
            first.get(name),
            *counts.get(name, (0, 0)),
        )
        for name in known.names
    ]

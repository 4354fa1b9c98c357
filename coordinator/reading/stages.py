"""Stages and rounds as people follow them: who gave, who has nothing, what came of each round."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fleetledger.coordinator.ledger.reader import LedgerReader


@dataclass(frozen=True)
class StageFacts:
    """A stage, and what was given for it."""

    stage: int
    class_names: tuple[str, ...]
    opened_index: int
    opened_ns: int
    opened_by: str
    closed_index: int | None
    closed_ns: int | None
    closed_because: str | None
    answered: int | None
    """Devices that had answered when it closed."""
    expected: int | None
    contributions: int
    """Parts in the sum, and answers to rounds."""
    contributors: int
    samples: int
    rounds: int
    gave: int
    """Devices that gave something, whatever became of it."""
    without: int
    """Devices that said that they have nothing, and gave nothing."""


_STAGES = """
SELECT stage.*, coalesce(given.parts, 0) AS parts, coalesce(given.devices, 0) AS devices,
    coalesce(given.samples, 0) AS samples,
    (SELECT count(*) FROM round WHERE round.stage = stage.stage) AS rounds,
    (SELECT count(DISTINCT device) FROM contribution AS one WHERE one.stage = stage.stage) AS gave,
    (SELECT count(DISTINCT device) FROM no_data AS none WHERE none.stage = stage.stage
        AND none.device NOT IN (SELECT device FROM contribution AS one
            WHERE one.stage = stage.stage)) AS without_any
FROM stage LEFT JOIN (
    SELECT stage, count(*) AS parts, count(DISTINCT device) AS devices, sum(samples) AS samples
    FROM contribution WHERE state IN ('held', 'answer') AND stage {} GROUP BY stage
) AS given USING (stage)
"""


def newest_stages(ledger: LedgerReader, before: int, limit: int) -> list[StageFacts]:
    """Return stages below one, newest first."""
    query = _STAGES.format("< ?") + " WHERE stage < ? ORDER BY stage DESC LIMIT ?"
    return [_stage(row) for row in ledger.db.query(query, [before, before, limit])]


def one_stage(ledger: LedgerReader, stage: int) -> StageFacts | None:
    """Return a stage; None where there is none."""
    rows = ledger.db.query(_STAGES.format("= ?") + " WHERE stage = ?", [stage, stage])
    return next(map(_stage, rows), None)


@dataclass(frozen=True)
class GivenRow:
    """What a device gave for a stage."""

    device: str
    parts: int
    samples: int
    payload_bytes: int
    newest_index: int
    state: str
    """`held` where a part of it is in the sum; of rounds `answer`; else what became of the last."""


def given_for(ledger: LedgerReader, stage: int, after: int, limit: int) -> list[GivenRow]:
    """Return what each device gave for a stage, the most first, from a place on."""
    rows = ledger.db.execute(
        "SELECT device, sum(state IN ('held', 'answer')),"
        " sum(CASE WHEN state IN ('held', 'answer') THEN samples ELSE 0 END),"
        " sum(payload_bytes), max(idx),"
        " CASE WHEN max(state = 'held') THEN 'held' WHEN max(state = 'answer') THEN 'answer'"
        " ELSE min(state) END"
        " FROM contribution WHERE stage = ? GROUP BY device ORDER BY 3 DESC, 1 LIMIT ? OFFSET ?",
        [stage, limit, after],
    )
    return [GivenRow(*row) for row in rows.fetchall()]


def nothing_for(ledger: LedgerReader, stage: int, limit: int) -> list[tuple[str, int, str]]:
    """Return who had nothing for a stage, or could not: device, entry, why; the newest first."""
    rows = ledger.db.execute(
        "SELECT device, max(idx), coalesce(reason, '') FROM no_data WHERE stage = ?"
        " AND device NOT IN (SELECT device FROM contribution WHERE stage = ?)"
        " GROUP BY device ORDER BY 2 DESC LIMIT ?",
        [stage, stage, limit],
    )
    return [(str(device), int(index), str(why)) for device, index, why in rows.fetchall()]


@dataclass(frozen=True)
class RoundFacts:
    """A round, as far as it came."""

    number: int
    stage: int
    round_of_stage: int
    phase: str
    opened_index: int
    opened_ns: int
    asked: int
    looking: int
    state: str
    closed_index: int | None
    closed_ns: int | None
    counted: int | None
    missing: int | None
    reason: str | None
    averaged_index: int | None
    averaging_seconds: float | None
    samples: int | None
    drift: float | None
    weights_bytes: int

    @property
    def seconds(self) -> float | None:
        """From when it opened to when it closed."""
        return None if self.closed_ns is None else (self.closed_ns - self.opened_ns) / 1e9


def rounds_of(ledger: LedgerReader, stage: int, before: int, limit: int) -> list[RoundFacts]:
    """Return rounds of a stage below one, newest first."""
    query = "SELECT * FROM round WHERE stage = ? AND number < ? ORDER BY number DESC LIMIT ?"
    return [_round(row) for row in ledger.db.query(query, [stage, before, limit])]


def one_round(ledger: LedgerReader, number: int) -> RoundFacts | None:
    """Return a round; None where there is none."""
    rows = ledger.db.query("SELECT * FROM round WHERE number = ?", [number])
    return next(map(_round, rows), None)


@dataclass(frozen=True)
class AnswerRow:
    """What a device gave in a round, or that it has nothing."""

    device: str
    index: int
    state: str
    """As of a contribution; `nothing` where it gave none."""
    samples: int
    payload_bytes: int
    reason: str


def answers_to(ledger: LedgerReader, stage: int, number: int) -> dict[str, AnswerRow]:
    """Return what came of each device that was asked, by its name."""
    rows = ledger.db.execute(
        "SELECT device, idx, state, samples, payload_bytes, '' FROM contribution"
        " WHERE stage = ? AND part = ? AND state <> 'held' UNION ALL"
        " SELECT device, idx, 'nothing', 0, 0, coalesce(reason, '') FROM no_data"
        " WHERE stage = ? AND round = ? ORDER BY 2",
        [stage, number, stage, number],
    )
    return {row[0]: AnswerRow(*row) for row in rows.fetchall()}


def _stage(row: dict[str, Any]) -> StageFacts:
    return StageFacts(
        stage=row["stage"],
        class_names=tuple(json.loads(row["class_names"])),
        opened_index=row["opened_index"],
        opened_ns=row["opened_ns"],
        opened_by=row["opened_by"],
        closed_index=row["closed_index"],
        closed_ns=row["closed_ns"],
        closed_because=row["closed_because"],
        answered=row["answered"],
        expected=row["expected"],
        contributions=row["parts"],
        contributors=row["devices"],
        samples=row["samples"],
        rounds=row["rounds"],
        gave=row["gave"],
        without=row["without_any"],
    )


def _round(row: dict[str, Any]) -> RoundFacts:
    return RoundFacts(
        number=row["number"],
        stage=row["stage"],
        round_of_stage=row["round_of_stage"],
        phase=row["phase"],
        opened_index=row["opened_index"],
        opened_ns=row["opened_ns"],
        asked=row["asked"],
        looking=row["looking"],
        state=row["state"],
        closed_index=row["closed_index"],
        closed_ns=row["closed_ns"],
        counted=row["counted"],
        missing=row["missing"],
        reason=row["reason"],
        averaged_index=row["averaged_index"],
        averaging_seconds=row["averaging_seconds"],
        samples=row["samples"],
        drift=row["client_drift"],
        weights_bytes=row["weights_bytes"],
    )

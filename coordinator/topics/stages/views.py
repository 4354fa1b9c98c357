"""Stages and reports for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sqlite_utils import Database

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection, json_text
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.stages.entries import (
    StageClosed,
    StageOpened,
    TransitionReported,
)
from fleetledger.schemas.counted import count_of
from fleetledger.schemas.shown import Column


def _stage_opened(db: Database, entry: Entry) -> None:
    db.table("stage").insert(
        {
            "stage": entry.body["stage"],
            "class_names": json_text(entry.body["class_names"]),
            "opened_index": entry.index,
            "opened_ns": entry.time_ns,
            "opened_by": entry.body["reason"],
        }
    )


def _stage_closed(db: Database, entry: Entry) -> None:
    db.table("stage").update(
        entry.body["stage"],
        {
            "closed_index": entry.index,
            "closed_ns": entry.time_ns,
            "closed_because": entry.body["reason"],
            "answered": entry.body["answered"],
            "expected": entry.body["expected"],
        },
    )


STAGE = Projection(
    "stage",
    {
        "stage": int,
        "class_names": str,
        "opened_index": int,
        "opened_ns": int,
        "opened_by": str,
        "closed_index": int,
        "closed_ns": int,
        "closed_because": str,
        "answered": int,
        "expected": int,
    },
    ("stage",),
    {StageOpened.kind: _stage_opened, StageClosed.kind: _stage_closed},
)


def _transition_reported(db: Database, entry: Entry) -> None:
    seen = entry.body["uncertainty"] or {}
    db.table("transition").insert(
        {
            "idx": entry.index,
            "device": entry.device,
            "time_ns": entry.time_ns,
            "why": entry.body["why"],
            "class_names": json_text(sorted(entry.body["classes"])),
            "model_version": seen.get("model_version"),
            "images": seen.get("images"),
            "uncertainty": seen.get("value"),
            "baseline": seen.get("baseline"),
        }
    )


TRANSITION = Projection(
    "transition",
    {
        "idx": int,
        "device": str,
        "time_ns": int,
        "why": str,
        "class_names": str,
        "model_version": int,
        "images": int,
        "uncertainty": float,
        "baseline": float,
    },
    ("idx",),
    {TransitionReported.kind: _transition_reported},
)


@dataclass(frozen=True)
class StageRow:
    """A stage, with why it was opened and closed."""

    stage: Annotated[int, Column("stage")]
    class_names: Annotated[tuple[str, ...], Column("classes", ", ".join)]
    contributions: Annotated[int, Column("contributions")]
    opened: Annotated[str, Column("opened")]
    closed: Annotated[str, Column("closed")]


@dataclass(frozen=True)
class ReportRow:
    """Something new that a device reported."""

    device: Annotated[str, Column("device")]
    text: Annotated[str, Column("report")]
    class_names: Annotated[tuple[str, ...], Column("unknown classes", ", ".join)]
    index: int


def stages(home: Path) -> list[StageRow]:
    """Return the stages, oldest first."""
    with ledger_of(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT stage.*, (SELECT count(*) FROM contribution"
                " WHERE contribution.stage = stage.stage AND state = 'held') AS held"
                " FROM stage ORDER BY stage"
            )
        )
    return [
        StageRow(
            row["stage"],
            tuple(json.loads(row["class_names"])),
            row["held"],
            f"by {row['opened_by']}",
            _closed(row),
        )
        for row in rows
    ]


@dataclass(frozen=True)
class StageInProgress:
    """The stage that is open."""

    stage: int
    class_names: tuple[str, ...]
    opened_index: int
    opened_ns: int
    opened_by: str


def open_stage_of(ledger: LedgerReader) -> StageInProgress | None:
    """Return the stage that is open; None where none is."""
    row = next(
        ledger.db.query("SELECT * FROM stage WHERE closed_ns IS NULL ORDER BY stage DESC"), None
    )
    if row is None:
        return None
    return StageInProgress(
        row["stage"],
        tuple(json.loads(row["class_names"])),
        row["opened_index"],
        row["opened_ns"],
        row["opened_by"],
    )


@dataclass(frozen=True)
class UnseenClasses:
    """Classes of a closed stage of which no device gave anything."""

    stage: int
    class_names: tuple[str, ...]
    index: int
    """Of the entry that closed it."""


def unseen_in(ledger: LedgerReader) -> UnseenClasses | None:
    """Return the classes of the newest stage that nobody has images of, once it is closed."""
    state = state_of(ledger)
    number, classes = state.stages.current, state.classes
    index = None if number is None else state.stages.by_number[number].closed_index
    if number is None or index is None:
        return None
    given = ledger.db.execute(
        "SELECT DISTINCT name FROM contribution JOIN contribution_class USING (idx)"
        " WHERE stage = ? AND state IN ('held', 'answer', 'late')",
        [number],
    ).fetchall()
    seen = {classes.present(name) for (name,) in given}
    names = state.stages.by_number[number].class_names
    unseen = tuple(name for name in names if classes.present(name) not in seen)
    return UnseenClasses(number, unseen, index) if unseen else None


def reports(home: Path) -> list[ReportRow]:
    """Return what devices have reported as new since the newest stage was opened."""
    with ledger_of(home) as ledger:
        return reports_in(ledger)


def reports_in(ledger: LedgerReader) -> list[ReportRow]:
    """Return the same of an open ledger."""
    rows = ledger.db.query(
        "SELECT * FROM transition"
        " WHERE idx > coalesce((SELECT max(opened_index) FROM stage), -1)"
        " AND device NOT IN (SELECT device FROM device_retired) ORDER BY idx"
    )
    return [
        ReportRow(row["device"], _report(row), tuple(json.loads(row["class_names"])), row["idx"])
        for row in rows
    ]


def _report(row: dict[str, Any]) -> str:
    if row["why"] == "class name":
        return "new class folders"
    return (
        f"unsure about {count_of(row['images'], 'image')}: {row['uncertainty']:.3f}, "
        f"so far {row['baseline']:.3f} (model {row['model_version']})"
    )


def _closed(row: dict[str, Any]) -> str:
    if row["closed_ns"] is None:
        return "open"
    return (
        f"{row['closed_because']}; {row['answered']} of {count_of(row['expected'], 'device')} "
        f"answered"
    )

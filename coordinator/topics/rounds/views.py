"""Rounds for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import (
    CohortContinued,
    RoundClosed,
    RoundFailed,
    RoundOpened,
    RoundsResumed,
    RoundsStopped,
    WeightsAveraged,
)
from fleetledger.coordinator.topics.stages.entries import BOUNDS
from fleetledger.schemas.shown import Column

_SECOND_NS = 1_000_000_000


def _round_opened(db: Database, entry: Entry) -> None:
    body = entry.body
    db.table("round").insert(
        {
            "number": body["number"],
            "opened_index": entry.index,
            "stage": body["stage"],
            "round_of_stage": body["round_of_stage"],
            "phase": body["phase"],
            "follows": body.get("follows"),
            "asked": len(body["cohort"]),
            "looking": len(body.get("observers", ())),
            "opened_ns": entry.time_ns,
            "weights": body["weights"]["digest"],
            "weights_bytes": body["weights"]["size"],
            "state": "open",
        }
    )


def _cohort_continued(db: Database, entry: Entry) -> None:
    body = entry.body
    db.execute(
        "UPDATE round SET asked = asked + ?, looking = looking + ? WHERE number = ?",
        [len(body["cohort"]), len(body["observers"]), body["number"]],
    )


def _round_closed(db: Database, entry: Entry) -> None:
    body = entry.body
    change = {
        "state": "closed" if body["counted"] else "came to nothing",
        "closed_index": entry.index,
        "closed_ns": entry.time_ns,
        "counted": len(body["counted"]),
        "missing": len(body["missing"]),
        "reason": body["reason"],
    }
    db.table("round").update(body["number"], change)


def _weights_averaged(db: Database, entry: Entry) -> None:
    body = entry.body
    change = {
        "state": "averaged",
        "averaged_index": entry.index,
        "averaging_seconds": body["seconds"],
        "result": body["weights"]["digest"],
        "aggregate": body["aggregate"],
        "samples": body["samples"],
        # A phase that passes the weights on has logits or images for answers, and no drift.
        "client_drift": None if body.get("unchanged") else body["client_drift"],
    }
    db.table("round").update(body["number"], change)


def _round_failed(db: Database, entry: Entry) -> None:
    change = {"state": "failed", "reason": entry.body["reason"]}
    db.table("round").update(entry.body["number"], change)


ROUND = Projection(
    "round",
    {
        "number": int,
        "opened_index": int,
        "stage": int,
        "round_of_stage": int,
        "phase": str,
        "follows": int,
        "asked": int,
        "looking": int,
        "opened_ns": int,
        "weights": str,
        "weights_bytes": int,
        "state": str,
        "closed_index": int,
        "closed_ns": int,
        "counted": int,
        "missing": int,
        "reason": str,
        "averaged_index": int,
        "averaging_seconds": float,
        "result": str,
        "aggregate": str,
        "samples": int,
        "client_drift": float,
    },
    ("number",),
    {
        RoundOpened.kind: _round_opened,
        CohortContinued.kind: _cohort_continued,
        RoundClosed.kind: _round_closed,
        WeightsAveraged.kind: _weights_averaged,
        RoundFailed.kind: _round_failed,
    },
    version=2,
)


def _rounds_stopped(db: Database, entry: Entry) -> None:
    row = {"idx": entry.index, "stage": entry.body["stage"], "reason": entry.body["reason"]}
    db.table("stopped").insert(row)


def _goes_on(db: Database, _entry: Entry) -> None:
    db.execute("DELETE FROM stopped")


STOPPED = Projection(
    "stopped",
    {"idx": int, "stage": int, "reason": str},
    ("idx",),
    {
        RoundsStopped.kind: _rounds_stopped,
        **dict.fromkeys(
            (RoundsResumed.kind, NetworkImported.kind, *(body.kind for body in BOUNDS)), _goes_on
        ),
    },
)


def _nothing_reported(db: Database, entry: Entry) -> None:
    _observed(db, entry, entry.body.get("observation"))


def _declined(db: Database, entry: Entry) -> None:
    body = entry.body
    if body.get("round") is not None and body.get("reason"):
        row = {"idx": entry.index, "device": entry.device, "round": body["round"]}
        db.table("declined").insert({**row, "reason": body["reason"]})


DECLINED = Projection(
    "declined",
    {"idx": int, "device": str, "round": int, "reason": str},
    ("idx",),
    {NothingReported.kind: _declined},
)


def _without_data(db: Database, entry: Entry) -> None:
    body = entry.body
    row = {"idx": entry.index, "device": entry.device, "stage": body["stage"]}
    db.table("no_data").insert({**row, "round": body.get("round"), "reason": body.get("reason")})


NO_DATA = Projection(
    "no_data",
    {"idx": int, "device": str, "stage": int, "round": int, "reason": str},
    ("idx",),
    {NothingReported.kind: _without_data},
    indexes=(("stage", "device"),),
)
"""Who had nothing for a stage or a round; with a reason, could not, or would not."""


def _contributions_accepted(db: Database, run: Sequence[Entry]) -> None:
    for entry in run:
        answer = entry.body.get("answer")
        if answer is not None:
            _observed(db, entry, answer.get("observation"))


def _observed(db: Database, entry: Entry, seen: dict[str, Any] | None) -> None:
    if seen is not None:
        row = {"idx": entry.index, "device": entry.device, "round": entry.body["round"], **seen}
        db.table("observation").insert(row)


OBSERVATION = Projection(
    "observation",
    {
        "idx": int,
        "device": str,
        "round": int,
        "entropy": float,
        "images": int,
        "transition": int,
    },
    ("idx",),
    {NothingReported.kind: _nothing_reported},
    runs={ContributionAccepted.kind: _contributions_accepted},
)


_ROUNDS = """
SELECT round.*, answers.bytes_up FROM round LEFT JOIN (
    SELECT stage, part, avg(payload_bytes) AS bytes_up FROM contribution
    WHERE state IN ('answer', 'late') GROUP BY stage, part
) AS answers ON answers.stage = round.stage AND answers.part = round.number
ORDER BY number
"""


@dataclass(frozen=True)
class RoundRow:
    """A round of training: who was asked, what counted, what came of it."""

    number: Annotated[int, Column("round")]
    stage: Annotated[int, Column("stage")]
    round_of_stage: Annotated[int, Column("of stage")]
    phase: Annotated[str, Column("phase", of="phase_told")]
    follows: int | None
    """The round whose answers a later phase goes on from."""
    asked: Annotated[int, Column("asked")]
    counted: Annotated[int | None, Column("counted")]
    missing: Annotated[int | None, Column("missing")]
    images: Annotated[int | None, Column("samples")]
    drift: Annotated[float | None, Column("drift", "{:.3f}".format)]
    """Mean distance of the answers from their mean, relative to the length of the step."""
    bytes_down: Annotated[int, Column("kB down/up", of="kilobytes")]
    """The weights that each device of the cohort was given."""
    bytes_up: int | None
    """The mean size of the answers, late ones among them; None before the first."""
    state: Annotated[str, Column("state")]
    looking: Annotated[int, Column("only looked", int, sparse=True)]
    """Devices that were asked only to look at their images."""
    seen: Annotated[str, Column("what they saw", sparse=True)]
    """What devices saw that looked, in words; empty where none did."""

    @property
    def phase_told(self) -> str:
        """The phase, and the round whose answers it goes on from."""
        return self.phase if self.follows is None else f"{self.phase}, after {self.follows}"

    @property
    def kilobytes(self) -> str:
        """Size of the weights that each device was given, and of an answer."""
        up = "-" if self.bytes_up is None else f"{self.bytes_up / 1000:.0f}"
        return f"{self.bytes_down / 1000:.0f}/{up}"


@dataclass(frozen=True)
class DeclinedRow:
    """A device that gave no answer to a round, and said why."""

    round: Annotated[int, Column("round")]
    device: Annotated[str, Column("device")]
    reason: Annotated[str, Column("why")]


def rounds(home: Path) -> list[RoundRow]:
    """Return the rounds, oldest first."""
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query(_ROUNDS))
        seen: dict[int, list[dict[str, Any]]] = {}
        for row in ledger.db.query("SELECT * FROM observation ORDER BY device"):
            seen.setdefault(row["round"], []).append(row)
    return [
        RoundRow(
            number=row["number"],
            stage=row["stage"],
            round_of_stage=row["round_of_stage"],
            phase=row["phase"],
            follows=row["follows"],
            asked=row["asked"],
            counted=row["counted"],
            missing=row["missing"],
            images=row["samples"],
            drift=row["client_drift"],
            bytes_down=row["weights_bytes"],
            bytes_up=None if row["bytes_up"] is None else round(row["bytes_up"]),
            state=_round_state(row),
            looking=row["looking"],
            seen=_seen(seen.get(row["number"], [])),
        )
        for row in rows
    ]


@dataclass(frozen=True)
class RoundInProgress:
    """A round that has not closed: whom it asked, and who answered."""

    number: int
    opened_index: int
    opened_ns: int
    latest_ns: int
    """When it closes with what came."""
    phase: str
    asked: tuple[str, ...]
    answered: frozenset[str]


def open_round(ledger: LedgerReader) -> RoundInProgress | None:
    """Return the round that is open; None where none is."""
    row = ledger.db.execute(
        "SELECT number, opened_index, opened_ns, stage FROM round WHERE state = 'open'"
        " ORDER BY number DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    number, index, opened_ns, stage = row
    opened = opening(ledger, index)
    answered = ledger.db.execute(
        "SELECT device FROM contribution WHERE stage = ? AND part = ? UNION"
        " SELECT device FROM no_data WHERE stage = ? AND round = ?",
        [stage, number, stage, number],
    )
    names = frozenset(name for (name,) in answered)
    latest_ns = opened_ns + round(opened.deadline_seconds * _SECOND_NS)
    return RoundInProgress(number, index, opened_ns, latest_ns, opened.phase, opened.cohort, names)


def opening(ledger: LedgerReader, index: int) -> RoundOpened:
    """Return what the entry of a round's opening says, with all devices that the round asks."""
    entries = ledger.entries(index)
    opened = RoundOpened.model_validate(next(entries).body)
    following = takewhile(lambda entry: entry.kind == CohortContinued.kind, entries)
    parts = [CohortContinued.model_validate(entry.body) for entry in following]
    cohort = (*opened.cohort, *(device for part in parts for device in part.cohort))
    observers = (*opened.observers, *(device for part in parts for device in part.observers))
    return opened.model_copy(update={"cohort": cohort, "observers": observers})


def without_data(ledger: LedgerReader, stage: int) -> frozenset[str]:
    """Return who said that there is nothing to give for a stage, or for a round of it."""
    rows = ledger.db.execute("SELECT DISTINCT device FROM no_data WHERE stage = ?", [stage])
    return frozenset(device for (device,) in rows.fetchall())


def stopped_in(ledger: LedgerReader) -> tuple[int, str] | None:
    """Return by which entry and why the open stage asks for no more rounds, where it does not."""
    row = ledger.db.execute("SELECT idx, reason FROM stopped").fetchone()
    return None if row is None else (row[0], row[1])


def stopped(home: Path) -> str | None:
    """Return why the open stage asks for no more rounds; None where nothing has stopped it."""
    with ledger_of(home) as ledger:
        found = stopped_in(ledger)
    return None if found is None else found[1]


def declined(home: Path) -> list[DeclinedRow]:
    """Return who gave no answer to rounds and said why, oldest first."""
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query("SELECT * FROM declined ORDER BY idx"))
    return [DeclinedRow(row["round"], row["device"], row["reason"]) for row in rows]


def _round_state(row: dict[str, Any]) -> str:
    """Return the state, with the reason where nothing came of the round."""
    state = str(row["state"])
    return f"{state}: {row['reason']}" if state in {"came to nothing", "failed"} else state


def _seen(rows: list[dict[str, Any]]) -> str:
    """Return what some devices saw in a round."""
    if not rows:
        return ""
    entropy = sum(row["entropy"] * row["images"] for row in rows) / sum(r["images"] for r in rows)
    begins = ", ".join(row["device"] for row in rows if row["transition"])
    told = f"entropy {entropy:.3f} on {len(rows)} device{'s' if len(rows) > 1 else ''}"
    return f"{told}; new task: {begins}" if begins else told

"""Contributions for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionRetracted,
    ContributionsCountedIn,
    ContributionsLeftOut,
    ContributionsSetAside,
    ContributionWithdrawn,
    EarlierSettled,
)


def _contributions_accepted(db: Database, run: Sequence[Entry]) -> None:
    rows: list[tuple[Any, ...]] = []
    for entry in run:
        replaces = entry.body["replaces"]
        if replaces is not None:
            _add(db, rows)  # what is replaced may be among them
            rows = []
            _leave(db, replaces, "replaced", entry)
        rows.append(_contribution(entry))
    _add(db, rows)


def _contribution(entry: Entry) -> tuple[Any, ...]:
    body, key = entry.body, entry.body["key"]
    return (
        entry.index,
        entry.device,
        key["stage"],
        key["part"],
        body["revision"],
        body["payload"],
        body["payload_bytes"],
        sum(body["samples"].values()),
        "held" if body.get("round") is None else "late" if body["late"] else "answer",
        None,
        body["lineage"],
        body.get("installation"),
        0,
    )


def _add(db: Database, rows: Sequence[tuple[Any, ...]]) -> None:
    # Plain SQL: there are many contributions, and the helper's own work would be a tenth of each.
    values = ", ".join("?" * len(CONTRIBUTION.columns))
    db.conn.executemany(f"INSERT INTO contribution VALUES ({values})", rows)  # noqa: S608


def _contribution_withdrawn(db: Database, entry: Entry) -> None:
    _leave(db, entry.body["replaces"], "withdrawn", entry)


def _contribution_retracted(db: Database, entry: Entry) -> None:
    _leave(db, entry.body["replaces"], "retracted", entry)


_EARLIER = """device = ? AND state = 'held' AND NOT kept AND installation <> ?"""


def _earlier_settled(db: Database, entry: Entry) -> None:
    known = [entry.body["device"], entry.body["installation"]]
    if entry.body["kept"]:
        db.execute(f"UPDATE contribution SET kept = 1 WHERE {_EARLIER}", known)  # noqa: S608
        return
    change = f"UPDATE contribution SET state = 'withdrawn', left_index = ? WHERE {_EARLIER}"  # noqa: S608
    db.execute(change, [entry.index, *known])


def _leave(db: Database, index: int | None, state: str, by: Entry) -> None:
    if index is not None:
        db.table("contribution").update(index, {"state": state, "left_index": by.index})


CONTRIBUTION = Projection(
    "contribution",
    {
        "idx": int,
        "device": str,
        "stage": int,
        "part": int,
        "revision": int,
        "payload": str,
        "payload_bytes": int,
        "samples": int,
        "state": str,
        "left_index": int,
        "lineage": str,
        "installation": str,
        "kept": int,
    },
    ("idx",),
    {
        EarlierSettled.kind: _earlier_settled,
        ContributionWithdrawn.kind: _contribution_withdrawn,
        ContributionRetracted.kind: _contribution_retracted,
    },
    runs={ContributionAccepted.kind: _contributions_accepted},
    indexes=(("device", "state", "samples"), ("stage", "part", "device")),
)


def _left_out(db: Database, entry: Entry) -> None:
    for device, text in entry.body["devices"].items():
        db.execute("DELETE FROM left_out WHERE device = ?", [device])
        if text:
            db.table("left_out").insert({"device": device, "idx": entry.index, "text": text})


LEFT_OUT = Projection(
    "left_out",
    {"device": str, "idx": int, "text": str},
    ("device",),
    {ContributionsLeftOut.kind: _left_out},
)
"""Who meets the bound on what one device may weigh, in words."""


def _set_aside(db: Database, entry: Entry) -> None:
    body = ContributionsSetAside.model_validate(entry.body)
    for part in body.set_aside:
        said = (entry.index, part.device, body.why(part))
        db.conn.executemany(
            "INSERT INTO set_aside VALUES (?, ?, ?, ?, NULL)",
            [(index, *said) for index in part.indices],
        )
    _end_aside(db, entry, [index for part in body.again for index in part.indices])


def _counted_in(db: Database, entry: Entry) -> None:
    _end_aside(db, entry, entry.body["indices"])


def _end_aside(db: Database, entry: Entry, indices: Sequence[int]) -> None:
    ended = "UPDATE set_aside SET until = ? WHERE idx = ? AND until IS NULL"
    db.conn.executemany(ended, [(entry.index, index) for index in indices])


SET_ASIDE = Projection(
    "set_aside",
    {
        "idx": int,
        "since": int,
        "device": str,
        "why": str,
        "until": int,
    },
    ("idx", "since"),
    {ContributionsSetAside.kind: _set_aside, ContributionsCountedIn.kind: _counted_in},
)
"""Contributions that are set aside, and why, from one entry until another; NULL for still."""


def _left_out_parts(db: Database, entry: Entry) -> None:
    out = [(index, entry.index, None) for index in entry.body["left_out"]]
    db.conn.executemany("INSERT INTO left_out_part VALUES (?, ?, ?)", out)
    ended = "UPDATE left_out_part SET until = ? WHERE idx = ? AND until IS NULL"
    db.conn.executemany(ended, [(entry.index, index) for index in entry.body["again"]])


LEFT_OUT_PART = Projection(
    "left_out_part",
    {"idx": int, "since": int, "until": int},
    ("idx", "since"),
    {ContributionsLeftOut.kind: _left_out_parts},
)
"""Contributions that are left out of the sum, from one entry until another; NULL for still."""


def _class_samples(db: Database, run: Sequence[Entry]) -> None:
    db.conn.executemany(
        "INSERT INTO contribution_class VALUES (?, ?, ?)",
        [
            (entry.index, name, samples)
            for entry in run
            for name, samples in entry.body["samples"].items()
        ],
    )


CONTRIBUTION_CLASS = Projection(
    "contribution_class",
    {"idx": int, "name": str, "samples": int},
    ("idx", "name"),
    {},
    runs={ContributionAccepted.kind: _class_samples},
)


@dataclass(frozen=True)
class LeftOutRow:
    """A device that meets the bound on what one may weigh, with a sentence on how."""

    device: str
    index: int
    text: str


def left_out(home: Path) -> list[str]:
    """Return what is left out of the sum because a device gave more than its share, in words."""
    with ledger_of(home) as ledger:
        return [row.text for row in left_out_in(ledger)]


def left_out_in(ledger: LedgerReader) -> list[LeftOutRow]:
    """Return who meets the bound on what one device may weigh, by name."""
    rows = ledger.db.execute("SELECT device, idx, text FROM left_out ORDER BY device").fetchall()
    return [LeftOutRow(*row) for row in rows]


@dataclass(frozen=True)
class SetAsideRow:
    """Contributions of a device that one entry set aside."""

    device: str
    index: int
    parts: int
    why: str
    """The reason with its figures and their limits."""


def set_aside_in(ledger: LedgerReader) -> list[SetAsideRow]:
    """Return what waits for the operator, by device."""
    rows = ledger.db.execute(
        "SELECT device, since, count(*), why FROM set_aside"
        " JOIN contribution USING (idx, device) WHERE until IS NULL AND state = 'held'"
        " GROUP BY since, device ORDER BY device, since"
    ).fetchall()
    return [SetAsideRow(*row) for row in rows]


def contributors(ledger: LedgerReader, stage: int) -> frozenset[str]:
    """Return who gave something for a stage, whatever became of it."""
    rows = ledger.db.execute("SELECT DISTINCT device FROM contribution WHERE stage = ?", [stage])
    return frozenset(device for (device,) in rows.fetchall())

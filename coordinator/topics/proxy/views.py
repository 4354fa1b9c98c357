"""Old models for whoever asks: a table for SQL, and what the command line shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.schemas.shown import Column


def _old_model_chosen(db: Database, entry: Entry) -> None:
    body = entry.body
    newest, winner = body["newest"] or {}, body["winner"] or {}
    previous, current = body["previous"] or {}, body["current"] or {}
    db.table("old_model").insert(
        {
            "idx": entry.index,
            "round": body["number"],
            "state": "scored" if newest else "nothing to score by",
            "score": newest.get("score"),
            "compared": len(body["scored"]),
            "best_round": winner.get("round"),
            "best_score": winner.get("score"),
            "previous_round": previous.get("round"),
            "current_round": current.get("round"),
            "gradients": body["gradients"],
            "images": body["images"],
        }
    )


def _old_model_missed(db: Database, entry: Entry) -> None:
    seconds = f"no score within {entry.body['seconds']:g} s"
    row = {"idx": entry.index, "round": entry.body["number"], "state": seconds}
    db.table("old_model").insert(row)


OLD_MODEL = Projection(
    "old_model",
    {
        "idx": int,
        "round": int,
        "state": str,
        "score": float,
        "compared": int,
        "best_round": int,
        "best_score": float,
        "previous_round": int,
        "current_round": int,
        "gradients": int,
        "images": int,
    },
    ("idx",),
    {OldModelChosen.kind: _old_model_chosen, OldModelMissed.kind: _old_model_missed},
)


@dataclass(frozen=True)
class OldModelRow:
    """What the proxy made of what a round gave; models are named by the rounds that gave them."""

    round: Annotated[int, Column("round")]
    state: Annotated[str, Column("proxy")]
    score: Annotated[float | None, Column("score", "{:.3f}".format)]
    compared: Annotated[int | None, Column("compared")]
    best: Annotated[int | None, Column("best")]
    """The one with the best score of the present task."""
    previous: Annotated[int | None, Column("old model")]
    """The old model of devices in the present task."""
    current: Annotated[int | None, Column("for the next task")]
    """The old model of devices that enter the next one."""


def old_models(home: Path) -> list[OldModelRow]:
    """Return what a proxy scored and chose, oldest first; nothing where there is none."""
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query("SELECT * FROM old_model ORDER BY idx"))
    return [
        OldModelRow(
            row["round"],
            row["state"],
            row["score"],
            row["compared"],
            row["best_round"],
            row["previous_round"],
            row["current_round"],
        )
        for row in rows
    ]

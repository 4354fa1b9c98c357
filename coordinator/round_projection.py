"""The tables of rounds, of who declined, what devices saw, what stopped, and old models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlite_utils import Database

from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection


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


def _round_closed(db: Database, entry: Entry) -> None:
    body = entry.body
    change = {
        "state": "closed" if body["counted"] else "came to nothing",
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
        "closed_ns": int,
        "counted": int,
        "missing": int,
        "reason": str,
        "result": str,
        "aggregate": str,
        "samples": int,
        "client_drift": float,
    },
    ("number",),
    {
        "round.opened": _round_opened,
        "round.closed": _round_closed,
        "weights.averaged": _weights_averaged,
        "round.failed": _round_failed,
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
        "rounds.stopped": _rounds_stopped,
        **dict.fromkeys(
            ("rounds.resumed", "stage.opened", "stage.closed", "network.imported"), _goes_on
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
    {"nothing.reported": _declined},
)


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
    {"nothing.reported": _nothing_reported},
    runs={"contribution.accepted": _contributions_accepted},
)


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
    {"old-model.chosen": _old_model_chosen, "old-model.missed": _old_model_missed},
)

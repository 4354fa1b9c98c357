"""Rollouts for whoever asks: tables for SQL."""

from __future__ import annotations

from collections.abc import Callable

from sqlite_utils import Database

from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection, Rule
from coordinator.topics.models.entries import DeviceModelStatus
from coordinator.topics.rollouts.entries import (
    GroupOpened,
    ModelCompared,
    RolloutAborted,
    RolloutApproved,
    RolloutFinished,
    RolloutMeasured,
    RolloutPaused,
    RolloutPlanned,
    RolloutResumed,
    RolloutRolledBack,
    RolloutStarted,
    RolloutUnreached,
)


def _planned(db: Database, entry: Entry) -> None:
    body = entry.body
    db.table("rollout").insert(
        {
            "number": body["rollout"],
            "version": body["version"],
            "former": body["former"],
            "automatic": int(body["automatic"]),
            "planned_index": entry.index,
            "planned_ns": entry.time_ns,
            "state": "planned",
            "newest_index": entry.index,
            "reason": "",
        }
    )


def _turns(state: str) -> Rule:
    def rule(db: Database, entry: Entry) -> None:
        change = {
            "state": state,
            "newest_index": entry.index,
            "reason": entry.body.get("reason", ""),
        }
        db.table("rollout").update(entry.body["rollout"], change)

    return rule


def _approved(db: Database, entry: Entry) -> None:
    db.execute(
        "UPDATE rollout SET state = 'approved', newest_index = ?"
        " WHERE number = ? AND state = 'planned'",
        [entry.index, entry.body["rollout"]],
    )


def _opened(db: Database, entry: Entry) -> None:
    change = {
        "state": "running",
        "group_number": entry.body["group"],
        "mode": entry.body["mode"],
        "newest_index": entry.index,
    }
    db.table("rollout").update(entry.body["rollout"], change)


def _measured(db: Database, entry: Entry) -> None:
    if entry.body["outcome"] == "pass":
        _turns("soaking")(db, entry)


def _aborted(db: Database, entry: Entry) -> None:
    _turns("superseded" if entry.body.get("by") else "aborted")(db, entry)


ROLLOUT = Projection(
    "rollout",
    {
        "number": int,
        "version": int,
        "former": int,
        "automatic": int,
        "planned_index": int,
        "planned_ns": int,
        "state": str,
        "group_number": int,
        "mode": str,
        "newest_index": int,
        "reason": str,
    },
    ("number",),
    {
        RolloutPlanned.kind: _planned,
        RolloutApproved.kind: _approved,
        RolloutStarted.kind: _turns("running"),
        GroupOpened.kind: _opened,
        RolloutMeasured.kind: _measured,
        RolloutPaused.kind: _turns("paused"),
        RolloutResumed.kind: _turns("running"),
        RolloutRolledBack.kind: _turns("rolled_back"),
        RolloutFinished.kind: _turns("finished"),
        RolloutAborted.kind: _aborted,
    },
)


def _belongs(rollout: Callable[[Entry], int]) -> Rule:
    def rule(db: Database, entry: Entry) -> None:
        db.table("rollout_entry").insert({"idx": entry.index, "rollout": rollout(entry)})

    return rule


def _status(db: Database, entry: Entry) -> None:
    """Take in what a device says of the version of a rollout, or of what that went back to."""
    db.execute(
        "INSERT INTO rollout_entry (idx, rollout) SELECT ?1, number FROM rollout"
        " WHERE version = ?2 OR (former = ?2 AND state = 'rolled_back')"
        " ORDER BY number DESC LIMIT 1",
        [entry.index, entry.body["version"]],
    )


_NAMED = _belongs(lambda entry: int(entry.body["rollout"]))
ROLLOUT_ENTRY = Projection(
    "rollout_entry",
    {"idx": int, "rollout": int},
    ("idx",),
    {
        **dict.fromkeys((*ROLLOUT.rules, RolloutUnreached.kind), _NAMED),
        ModelCompared.kind: _belongs(lambda entry: int(entry.body["comparison"]["rollout"])),
        DeviceModelStatus.kind: _status,
    },
    indexes=(("rollout", "idx"),),
)
"""Which entries a rollout is made of: its own, comparisons, and what devices say of its version."""

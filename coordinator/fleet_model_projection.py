"""Tables of what the fleet is to run: the stack, devices of their own, whether models are held."""

from __future__ import annotations

from sqlite_utils import Database

from coordinator.core.entries import ModelDesired
from coordinator.core.fleet_models import after_push, after_return
from coordinator.device_evaluation import shares_of
from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection


def _desired(db: Database, entry: Entry) -> None:
    body = ModelDesired.model_validate(entry.body)
    if body.devices is not None:
        return
    rows = db.execute("SELECT version FROM fleet_model ORDER BY place").fetchall()
    step = after_return if body.goes_back else after_push
    stack = step([version for (version,) in rows], body.version)
    db.execute("DELETE FROM fleet_model WHERE place >= ?", [len(stack)])
    top = {"place": len(stack) - 1, "version": body.version}
    db.table("fleet_model").insert(top, replace=True)


FLEET_MODEL = Projection(
    "fleet_model",
    {"place": int, "version": int},
    ("place",),
    {"model.desired": _desired},
)


def _desired_of_some(db: Database, entry: Entry) -> None:
    body = ModelDesired.model_validate(entry.body)
    if body.devices is None and not body.spares:
        db.execute("DELETE FROM canary")
    for device in body.devices or ():
        db.table("canary").insert({"device": device, "version": body.version}, replace=True)


CANARY = Projection(
    "canary",
    {"device": str, "version": int},
    ("device",),
    {"model.desired": _desired_of_some},
)


def _held(db: Database, entry: Entry) -> None:
    db.execute("DELETE FROM model_hold")
    if entry.body["held"]:
        db.table("model_hold").insert({"idx": entry.index})


MODEL_HOLD = Projection("model_hold", {"idx": int}, ("idx",), {"model.held": _held})


def _evaluated(db: Database, entry: Entry) -> None:
    row = {"version": entry.body["version"], "device": entry.device, **shares_of(entry)}
    db.table("measured").insert(row, replace=True)


MEASURED = Projection(
    "measured",
    {"version": int, "device": str, "correct": int, "total": int, "mean_iou": float},
    ("version", "device"),
    {"device.evaluated": _evaluated},
)

"""Tables for whoever asks with SQL: devices, classes, stages, contributions, models, reports.

Each rule takes the table from before an entry to after it. The rules of the fleet do not read
these tables; they decide on `coordinator.core.state`.
"""

from __future__ import annotations

from sqlite_utils import Database

from coordinator.contribution_projection import CONTRIBUTION, CONTRIBUTION_CLASS, LEFT_OUT
from coordinator.device_evaluation import device_evaluated
from coordinator.fleet_model_projection import CANARY, FLEET_MODEL, MEASURED, MODEL_HOLD
from coordinator.key_projection import DEVICE_KEY, DEVICE_TWINS
from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection, Projections
from coordinator.release_projection import PUSH, RELEASE, ROOT
from coordinator.round_projection import DECLINED, OBSERVATION, OLD_MODEL, ROUND, STOPPED
from schemas.canonical import canonical_json


def _device_admitted(db: Database, entry: Entry) -> None:
    row = {"device": entry.body["device"], "admitted_index": entry.index}
    db.table("device").insert(row, ignore=True)


def _device_born(db: Database, entry: Entry) -> None:
    able = entry.body["capabilities"]
    db.table("device").update(
        str(entry.device),
        {
            "boot": entry.body["boot"],
            "installation": entry.body["installation"],
            "provider": able["provider"],
            "born_ns": entry.time_ns,
        },
    )


def _device_model_status(db: Database, entry: Entry) -> None:
    change = {"model_state": entry.body["state"], "model_reason": entry.body["reason"]}
    if entry.body["state"] == "active":
        change["active_version"] = entry.body["version"]
    db.table("device").update(str(entry.device), change)


def _devices_silent(db: Database, entry: Entry) -> None:
    since = entry.time_ns - entry.body["seconds"] * 1_000_000_000
    for device in entry.body["devices"]:
        db.table("device").update(device, {"silent_ns": since})


def _devices_heard(db: Database, entry: Entry) -> None:
    for device in entry.body["devices"]:
        db.table("device").update(device, {"silent_ns": None})


DEVICE = Projection(
    "device",
    {
        "device": str,
        "admitted_index": int,
        "boot": str,
        "installation": str,
        "provider": str,
        "born_ns": int,
        "silent_ns": int,
        "active_version": int,
        "model_state": str,
        "model_reason": str,
        "evaluated_version": int,
        "correct": int,
        "total": int,
        "mean_iou": float,
        "bytes_up": int,
        "bytes_down": int,
    },
    ("device",),
    {
        "device.admitted": _device_admitted,
        "device.born": _device_born,
        "device.model_status": _device_model_status,
        "device.evaluated": device_evaluated,
        "devices.silent": _devices_silent,
        "devices.heard": _devices_heard,
    },
)


def _class_named(db: Database, entry: Entry) -> None:
    row = {"name": entry.body["name"], "class_index": entry.body["index"], "meaning": None}
    db.table("class").insert(row, replace=True)


def _class_renamed(db: Database, entry: Entry) -> None:
    old, new = entry.body["old"], entry.body["new"]
    index = db.table("class").get(old)["class_index"]
    db.table("class").insert({"name": new, "class_index": index, "meaning": None}, replace=True)
    db.table("class").update(old, {"class_index": None, "meaning": new})


def _class_merged(db: Database, entry: Entry) -> None:
    change = {"class_index": None, "meaning": entry.body["target"]}
    db.table("class").update(entry.body["source"], change)


CLASS = Projection(
    "class",
    {"name": str, "class_index": int, "meaning": str},
    ("name",),
    {
        "class.named": _class_named,
        "class.renamed": _class_renamed,
        "class.merged": _class_merged,
    },
)


def _stage_opened(db: Database, entry: Entry) -> None:
    db.table("stage").insert(
        {
            "stage": entry.body["stage"],
            "class_names": _json(entry.body["class_names"]),
            "opened_index": entry.index,
            "opened_ns": entry.time_ns,
            "opened_by": entry.body["reason"],
        }
    )


def _stage_closed(db: Database, entry: Entry) -> None:
    db.table("stage").update(
        entry.body["stage"],
        {
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
        "closed_ns": int,
        "closed_because": str,
        "answered": int,
        "expected": int,
    },
    ("stage",),
    {"stage.opened": _stage_opened, "stage.closed": _stage_closed},
)


def _transition_reported(db: Database, entry: Entry) -> None:
    seen = entry.body["uncertainty"] or {}
    db.table("transition").insert(
        {
            "idx": entry.index,
            "device": entry.device,
            "time_ns": entry.time_ns,
            "why": entry.body["why"],
            "class_names": _json(sorted(entry.body["classes"])),
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
    {"transition.reported": _transition_reported},
)


def _temperature_fitted(db: Database, entry: Entry) -> None:
    body = entry.body
    db.table("temperature").insert(
        {
            "idx": entry.index,
            "version": body["version"],
            "logit_scale": body["logit_scale"],
            "images": body["images"],
            "devices": body["devices"],
            "nats_per_image": body["nats_per_image"],
        }
    )


TEMPERATURE = Projection(
    "temperature",
    {
        "idx": int,
        "version": int,
        "logit_scale": float,
        "images": int,
        "devices": int,
        "nats_per_image": float,
    },
    ("idx",),
    {"temperature.fitted": _temperature_fitted},
)


def _model_solved(db: Database, entry: Entry) -> None:
    db.table("model").insert(
        {
            "version": entry.body["version"],
            "state": "solved",
            "solved_index": entry.index,
            "solved_ns": entry.time_ns,
            "lineage": entry.body["lineage"],
            "class_names": _json(entry.body["class_names"]),
            "contributions": len(entry.body["inputs"]),
            "aggregate": entry.body["aggregate"],
            "head": entry.body["head"],
        }
    )


def _model_exported(db: Database, entry: Entry) -> None:
    parity = entry.body["parity"]
    db.table("model").update(
        entry.body["version"],
        {
            "state": "exported",
            "manifest": entry.body["manifest"]["digest"],
            "parity_difference": parity["max_absolute_difference"],
            "parity_agreement": parity["agreement"],
        },
    )


def _model_desired(db: Database, entry: Entry) -> None:
    if entry.body["devices"] is None:
        db.execute("UPDATE model SET state = 'exported' WHERE state = 'desired'")
        db.table("model").update(entry.body["version"], {"state": "desired"})


MODEL = Projection(
    "model",
    {
        "version": int,
        "state": str,
        "solved_index": int,
        "solved_ns": int,
        "lineage": str,
        "class_names": str,
        "contributions": int,
        "aggregate": str,
        "head": str,
        "manifest": str,
        "parity_difference": float,
        "parity_agreement": float,
    },
    ("version",),
    {
        "model.solved": _model_solved,
        "model.exported": _model_exported,
        "model.desired": _model_desired,
    },
)


def _descends(db: Database, entry: Entry) -> None:
    for device in entry.body.get("descends", ()):
        _descent(db, entry.body["version"], device)


def _descent_marked(db: Database, entry: Entry) -> None:
    for version in entry.body["versions"]:
        _descent(db, version, entry.body["device"])


def _descent(db: Database, version: int, device: str) -> None:
    db.table("descent").insert({"version": version, "device": device}, ignore=True)


DESCENT = Projection(
    "descent",
    {"version": int, "device": str},
    ("version", "device"),
    {"model.solved": _descends, "descent.marked": _descent_marked},
)


def _json(value: object) -> str:
    return canonical_json(value).decode("utf-8")


TABLES = Projections(
    (
        DEVICE,
        DEVICE_KEY,
        DEVICE_TWINS,
        CLASS,
        STAGE,
        CONTRIBUTION,
        CONTRIBUTION_CLASS,
        LEFT_OUT,
        ROUND,
        STOPPED,
        DECLINED,
        OBSERVATION,
        OLD_MODEL,
        MODEL,
        FLEET_MODEL,
        CANARY,
        MODEL_HOLD,
        MEASURED,
        ROOT,
        PUSH,
        RELEASE,
        DESCENT,
        TRANSITION,
        TEMPERATURE,
    )
)
"""Every projection of a coordinator's ledger."""

"""Models for whoever asks: tables for SQL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection, Rule, json_text
from fleetledger.coordinator.topics.models.entries import (
    DeviceEvaluated,
    DeviceModelStatus,
    DevicePinned,
    ModelDesired,
    ModelExported,
    ModelFailed,
    ModelImported,
    ModelsHeld,
    ModelSolved,
    ModelWithheld,
    TemperatureFitted,
)
from fleetledger.coordinator.topics.models.stack import after_push, after_return
from fleetledger.coordinator.topics.rounds.entries import DescentMarked


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
    {TemperatureFitted.kind: _temperature_fitted},
)


def _model_solved(db: Database, entry: Entry) -> None:
    db.table("model").insert(
        {
            "version": entry.body["version"],
            "state": "solved",
            "solved_index": entry.index,
            "solved_ns": entry.time_ns,
            "lineage": entry.body["lineage"],
            "class_names": json_text(entry.body["class_names"]),
            "contributions": entry.body["contributions"],
            "ledger_size": entry.body["ledger_size"],
            "aggregate": entry.body["aggregate"],
            "head": entry.body["head"],
        }
    )


def _model_imported(db: Database, entry: Entry) -> None:
    body = entry.body
    db.table("model").insert(
        {
            "version": body["version"],
            "state": "imported",
            "solved_index": entry.index,
            "solved_ns": entry.time_ns,
            "lineage": body["frozen"]["digest"],
            "class_names": json_text(body["class_names"]),
            "contributions": 0,
            "aggregate": body["file"]["digest"],
            "head": body["head"]["digest"],
            "source": body["name"],
        }
    )


def _model_exported(db: Database, entry: Entry) -> None:
    parity = entry.body["parity"]
    db.table("model").update(
        entry.body["version"],
        {
            "state": "exported",
            "exported_index": entry.index,
            "manifest": entry.body["manifest"]["digest"],
            "parity_difference": parity["max_absolute_difference"],
            "parity_agreement": parity["agreement"],
        },
    )


def _model_desired(db: Database, entry: Entry) -> None:
    if ModelDesired.model_validate(entry.body).of_all:
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
        "exported_index": int,
        "manifest": str,
        "parity_difference": float,
        "parity_agreement": float,
        "source": str,
        "ledger_size": int,
    },
    ("version",),
    {
        ModelSolved.kind: _model_solved,
        ModelImported.kind: _model_imported,
        ModelExported.kind: _model_exported,
        ModelDesired.kind: _model_desired,
    },
)


def _failed(db: Database, entry: Entry) -> None:
    _made(db, entry)
    db.table("model_failed").insert({"idx": entry.index, "reason": entry.body["reason"]})


def _made(db: Database, _entry: Entry) -> None:
    db.execute("DELETE FROM model_failed")


MODEL_FAILED = Projection(
    "model_failed",
    {"idx": int, "reason": str},
    ("idx",),
    {ModelFailed.kind: _failed, ModelSolved.kind: _made},
)
"""The last failure to make a model, until one is made."""


def _solved_descends(db: Database, entry: Entry) -> None:
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
    {ModelSolved.kind: _solved_descends, DescentMarked.kind: _descent_marked},
)


def _desired(db: Database, entry: Entry) -> None:
    body = ModelDesired.model_validate(entry.body)
    if not body.of_all:
        return
    rows = db.execute("SELECT version FROM fleet_model ORDER BY place").fetchall()
    step = after_return if body.returns else after_push
    stack = step([version for (version,) in rows], body.version)
    db.execute("DELETE FROM fleet_model WHERE place >= ?", [len(stack)])
    top = {"place": len(stack) - 1, "version": body.version}
    db.table("fleet_model").insert(top, replace=True)


FLEET_MODEL = Projection(
    "fleet_model",
    {"place": int, "version": int},
    ("place",),
    {ModelDesired.kind: _desired},
)


def _desired_of_some(db: Database, entry: Entry) -> None:
    body = ModelDesired.model_validate(entry.body)
    if body.of_all and not body.spares:
        db.execute("DELETE FROM canary")
    if body.group is not None:
        return  # a rollout tries its candidate again
    for device in body.devices or ():
        row = {"device": device, "version": body.version, "idx": entry.index}
        db.table("canary").insert(row, replace=True)


CANARY = Projection(
    "canary",
    {"device": str, "version": int, "idx": int},
    ("device",),
    {ModelDesired.kind: _desired_of_some},
)


def _pinned(db: Database, entry: Entry) -> None:
    pinned = entry.body["version"]
    version = entry.body["then"] if pinned is None else pinned
    for device in entry.body["devices"]:
        row = {"device": device, "idx": entry.index, "version": version}
        if version is None:
            db.execute("DELETE FROM pin WHERE device = ?", [device])
        else:
            whether = {"pinned": int(pinned is not None)}
            db.table("pin").insert({**row, **whether}, replace=True)


def _said_since(db: Database, entry: Entry) -> None:
    """Forget what followed a pin, where something newer is said of the device."""
    body = ModelDesired.model_validate(entry.body)
    if body.of_all and body.spares:
        db.execute("DELETE FROM pin WHERE NOT pinned AND device NOT IN (SELECT device FROM canary)")
    elif body.of_all:
        db.execute("DELETE FROM pin WHERE NOT pinned")
    for device in body.devices or ():
        db.execute("DELETE FROM pin WHERE NOT pinned AND device = ?", [device])


PIN = Projection(
    "pin",
    {"device": str, "idx": int, "version": int, "pinned": int},
    ("device",),
    {DevicePinned.kind: _pinned, ModelDesired.kind: _said_since},
)
"""Devices that run one version whatever is said of others (`pinned`), or did and go on with one."""


def _held(db: Database, entry: Entry) -> None:
    db.execute("DELETE FROM model_hold")
    if entry.body["held"]:
        db.table("model_hold").insert({"idx": entry.index})


def _withheld(db: Database, entry: Entry) -> None:
    row = {"version": entry.body["version"], "idx": entry.index}
    db.table("model_withheld").insert({**row, "lacks": json_text(entry.body["lacks"])})


MODEL_WITHHELD = Projection(
    "model_withheld",
    {"version": int, "idx": int, "lacks": str},
    ("version",),
    {ModelWithheld.kind: _withheld},
)
"""Models that lack classes of the one before, and wait for a person."""

MODEL_HOLD = Projection("model_hold", {"idx": int}, ("idx",), {ModelsHeld.kind: _held})


# What a device says of how well its model does, over all classes: `correct` and `total` are right
# answers and held-out samples; of pixels sums of intersections and unions, with the mean IoU of
# the classes that have one, the background among them.
def _device_evaluated(db: Database, entry: Entry) -> None:
    """Take in an evaluation; entries of before models of pixels do not say what has a class."""
    db.table("device").update(
        str(entry.device),
        {
            "evaluated_version": entry.body["version"],
            **_shares_of(entry),
            "bytes_up": entry.body["bytes_up"],
            "bytes_down": entry.body["bytes_down"],
        },
    )


def _shares_of(entry: Entry) -> dict[str, int | float | None]:
    """Return the columns `correct`, `total` and `mean_iou` of an evaluation."""
    results = entry.body["results"].values()
    shares = [result["correct"] / result["total"] for result in results]
    of_pixels = entry.body.get("answers") == "pixels"
    return {
        "correct": sum(result["correct"] for result in results),
        "total": sum(result["total"] for result in results),
        "mean_iou": sum(shares) / len(shares) if of_pixels and shares else None,
    }


def _device_model_status(db: Database, entry: Entry) -> None:
    state = entry.body["state"]
    if state == "shadowing":
        return  # it runs what it ran
    state = "active" if state == "settled" else state
    change = {
        "model_state": state,
        "model_reason": entry.body["reason"],
        "model_version": entry.body["version"],
        "model_index": entry.index,
    }
    if state == "active":
        change["active_version"] = entry.body["version"]
    db.table("device").update(str(entry.device), change)


OF_DEVICES: Mapping[str, Rule] = {
    DeviceModelStatus.kind: _device_model_status,
    DeviceEvaluated.kind: _device_evaluated,
}
"""What devices say of their models, in the table of devices."""


def _evaluated(db: Database, entry: Entry) -> None:
    known = {"version": entry.body["version"], "device": entry.device, "idx": entry.index}
    db.table("measured").insert({**known, **_shares_of(entry)}, replace=True)


MEASURED = Projection(
    "measured",
    {
        "version": int,
        "device": str,
        "idx": int,
        "correct": int,
        "total": int,
        "mean_iou": float,
    },
    ("version", "device"),
    {DeviceEvaluated.kind: _evaluated},
)

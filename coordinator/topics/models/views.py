"""What devices say of their models, in the table of devices."""

from __future__ import annotations

from collections.abc import Mapping

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Rule
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, DeviceModelStatus
from fleetledger.coordinator.topics.models.state import DeviceMeasurement


def _device_evaluated(db: Database, entry: Entry) -> None:
    body = DeviceEvaluated.model_validate(entry.body)
    found = DeviceMeasurement.of(body, entry.index)
    change = {
        "evaluated_version": body.version,
        "correct": found.correct,
        "total": found.total,
        "mean_iou": found.mean_iou,
        "bytes_up": body.bytes_up,
        "bytes_down": body.bytes_down,
    }
    db.table("device").update(str(entry.device), change)


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

"""What devices say of their models, in the table of devices."""

from __future__ import annotations

from collections.abc import Mapping

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Rule
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, DeviceModelStatus


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

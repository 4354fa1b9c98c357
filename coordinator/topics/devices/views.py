"""Devices for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection
from coordinator.ledger.reader import ledger_of
from coordinator.topics.devices.entries import (
    DeviceAdmitted,
    DeviceBorn,
    DeviceDoubled,
    DeviceSettled,
    DevicesHeard,
    DevicesSilent,
)
from coordinator.topics.models.views import OF_DEVICES
from schemas.keys import VerifyKey


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
        DeviceAdmitted.kind: _device_admitted,
        DeviceBorn.kind: _device_born,
        **OF_DEVICES,
        DevicesSilent.kind: _devices_silent,
        DevicesHeard.kind: _devices_heard,
    },
)


def _device_doubled(db: Database, entry: Entry) -> None:
    one, other = entry.body["runs"]
    known = {"device": entry.body["device"], "changed_index": entry.index}
    row = {"one": one, "other": other, "kept": None}
    db.table("device_twins").insert({**known, **row}, replace=True)


def _device_settled(db: Database, entry: Entry) -> None:
    change = {"kept": entry.body["kept"], "changed_index": entry.index}
    db.table("device_twins").update(entry.body["device"], change)


DEVICE_TWINS = Projection(
    "device_twins",
    {"device": str, "one": str, "other": str, "kept": str, "changed_index": int},
    ("device",),
    {DeviceDoubled.kind: _device_doubled, DeviceSettled.kind: _device_settled},
)


@dataclass(frozen=True)
class DeviceRow:
    """An admitted device."""

    device: str
    contributions: int
    samples: int
    active_version: int | None
    model_state: str
    accuracy: float | None
    """Share of held-out samples that the model is right for; of a model of pixels the mean over
    classes, the background among them, of intersection over union."""
    of_pixels: bool
    """Whether `accuracy` is the latter."""
    key: str = ""
    """Hash of its key, or `invited` or `revoked`; empty where it has none."""
    silent_ns: int | None = None
    """Since when nothing came of it that could be believed, in nanoseconds since 1970."""


@dataclass(frozen=True)
class TwinsRow:
    """A device whose name two installations have, each named by a run of it."""

    device: str
    one: str
    other: str


def devices(home: Path) -> list[DeviceRow]:
    """Return the admitted devices by name."""
    with ledger_of(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT device.*, device_key.key, device_key.state AS key_state,"
                " count(idx) AS held, coalesce(sum(samples), 0) AS samples"
                " FROM device LEFT JOIN contribution"
                " ON contribution.device = device.device AND contribution.state = 'held'"
                " LEFT JOIN device_key ON device_key.device = device.device"
                " GROUP BY device.device ORDER BY device.device"
            )
        )
    return [
        DeviceRow(
            row["device"],
            row["held"],
            row["samples"],
            row["active_version"],
            " ".join(filter(None, (row["model_state"], row["model_reason"]))),
            _accuracy(row),
            row["mean_iou"] is not None,
            _key(row),
            None if row["key_state"] == "revoked" else row["silent_ns"],
        )
        for row in rows
    ]


def twins(home: Path) -> list[TwinsRow]:
    """Return the devices whose name two installations have, and that wait for the operator."""
    with ledger_of(home) as ledger:
        rows = list(
            ledger.db.query("SELECT * FROM device_twins WHERE kept IS NULL ORDER BY device")
        )
    return [TwinsRow(row["device"], row["one"], row["other"]) for row in rows]


def _key(row: dict[str, Any]) -> str:
    key = row["key"]
    return row["key_state"] or "" if key is None else VerifyKey(key).key_hash.hex()


def _accuracy(row: dict[str, Any]) -> float | None:
    if row["mean_iou"] is not None:
        return float(row["mean_iou"])
    return row["correct"] / row["total"] if row["total"] else None

"""Devices for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

from pathlib import Path

from sqlite_utils import Database

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection, json_text
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.devices.choosing import DeviceChoice, chosen
from fleetledger.coordinator.topics.devices.entries import (
    DeviceAdmitted,
    DeviceBorn,
    DeviceRetired,
    DevicesHeard,
    DevicesSilent,
)
from fleetledger.coordinator.topics.models.views import OF_DEVICES
from fleetledger.schemas.values import DeviceId
from fleetledger.schemas.wire import WireRange


def _device_admitted(db: Database, entry: Entry) -> None:
    row = (entry.body["device"], entry.index)
    db.execute("INSERT OR IGNORE INTO device (device, admitted_index) VALUES (?, ?)", row)
    known = [entry.body["device"]]
    if db.execute("SELECT 1 FROM device_retired WHERE device = ?", known).fetchone():
        columns = ", ".join(DEVICE.columns)
        db.execute(
            f"INSERT OR REPLACE INTO device ({columns})"  # noqa: S608 - columns of this program
            f" SELECT {columns} FROM device_retired WHERE device = ?",
            known,
        )
        db.execute("DELETE FROM device_retired WHERE device = ?", known)


def _device_retired(db: Database, entry: Entry) -> None:
    known = [entry.body["device"]]
    db.execute("UPDATE device SET silent_ns = NULL, silent_index = NULL WHERE device = ?", known)
    columns = ", ".join(DEVICE.columns)
    db.execute(
        f"INSERT INTO device_retired ({columns}, retired_index, retired_ns, reason)"  # noqa: S608
        f" SELECT {columns}, ?, ?, ? FROM device WHERE device = ?",
        [entry.index, entry.time_ns, entry.body["reason"], *known],
    )
    db.execute("DELETE FROM device WHERE device = ?", known)


_FIRST_WIRE = WireRange().model_dump()


def _device_born(db: Database, entry: Entry) -> None:
    able, refused_by = entry.body["capabilities"], entry.body.get("refused_by")
    values = (
        entry.body["boot"],
        entry.body["installation"],
        able["provider"],
        able["agent_version"],
        json_text(able["features"]),
        json_text(entry.body.get("wire", _FIRST_WIRE)),
        None if refused_by is None else json_text(refused_by),
        entry.time_ns,
        entry.index,
        entry.device,
    )
    db.execute(_BORN, values)


# Plain SQL: a fleet of 100,000 is born in one commit, and to look up the table's columns each time
# costs more than all else.
_BORN = """UPDATE device SET boot = ?, installation = ?, provider = ?, agent_version = ?,
    features = ?, wire = ?, refused_by = ?, born_ns = ?, born_index = ? WHERE device = ?"""


def _devices_silent(db: Database, entry: Entry) -> None:
    since = entry.time_ns - entry.body["seconds"] * 1_000_000_000
    for device in entry.body["devices"]:
        db.table("device").update(device, {"silent_ns": since, "silent_index": entry.index})


def _devices_heard(db: Database, entry: Entry) -> None:
    for device in entry.body["devices"]:
        db.table("device").update(device, {"silent_ns": None, "silent_index": None})


DEVICE = Projection(
    "device",
    {
        "device": str,
        "admitted_index": int,
        "boot": str,
        "installation": str,
        "provider": str,
        "agent_version": str,
        "features": str,
        "wire": str,
        "refused_by": str,
        "born_ns": int,
        "born_index": int,
        "silent_ns": int,
        "silent_index": int,
        "active_version": int,
        "model_state": str,
        "model_reason": str,
        "model_version": int,
        "model_index": int,
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
        DeviceRetired.kind: _device_retired,
        DeviceBorn.kind: _device_born,
        **OF_DEVICES,
        DevicesSilent.kind: _devices_silent,
        DevicesHeard.kind: _devices_heard,
    },
)


DEVICE_RETIRED = Projection(
    "device_retired",
    {**DEVICE.columns, "retired_index": int, "retired_ns": int, "reason": str},
    ("device",),
    {},
)
"""Devices that were retired, as they were then; the rules of `device` move them to and fro."""


def birth(ledger: LedgerReader, index: int) -> DeviceBorn:
    """Return what a device said of itself when it began a run, as the entry has it."""
    return DeviceBorn.model_validate(ledger.entry(index).body)


def chosen_in(ledger: LedgerReader, choice: DeviceChoice) -> tuple[DeviceId, ...]:
    """Return the devices that are meant; raise `CommandError` where nobody is."""
    return chosen(choice, state_of(ledger).devices.tags)


def keys(home: Path) -> dict[DeviceId, str]:
    """Return the admitted devices by name, each with the text of its key."""
    with ledger_of(home) as ledger:
        state = state_of(ledger)
    return {name: state.keys.of(name).text for name in sorted(state.devices.admitted)}


def retired_names(home: Path) -> list[DeviceId]:
    """Return the names of devices that were retired."""
    with ledger_of(home) as ledger:
        return sorted(state_of(ledger).devices.retired)

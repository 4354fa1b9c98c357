"""Keys of devices for whoever asks with SQL."""

from __future__ import annotations

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.topics.keys.entries import (
    DeviceEnrolled,
    DeviceInvited,
    DeviceKeyRevoked,
    DeviceKeyRotated,
)


def _device_invited(db: Database, entry: Entry) -> None:
    row = {"state": "invited", "key": None, "expires_ns": entry.body["expires_ns"]}
    _put(db, entry, row)


def _device_enrolled(db: Database, entry: Entry) -> None:
    _put(db, entry, {"state": "enrolled", "key": entry.body["key"], "expires_ns": None})


def _device_key_revoked(db: Database, entry: Entry) -> None:
    _put(db, entry, {"state": "revoked", "key": None, "expires_ns": None})


def _put(db: Database, entry: Entry, row: dict[str, object]) -> None:
    known = {"device": entry.body["device"], "changed_index": entry.index}
    db.table("device_key").insert({**known, **row}, replace=True)


DEVICE_KEY = Projection(
    "device_key",
    {"device": str, "state": str, "key": str, "expires_ns": int, "changed_index": int},
    ("device",),
    {
        DeviceInvited.kind: _device_invited,
        DeviceEnrolled.kind: _device_enrolled,
        DeviceKeyRotated.kind: _device_enrolled,
        DeviceKeyRevoked.kind: _device_key_revoked,
    },
)

"""Tables of who devices are, their keys and installations, for whoever asks with SQL."""

from __future__ import annotations

from sqlite_utils import Database

from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection


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
    {"device.doubled": _device_doubled, "device.settled": _device_settled},
)

DEVICE_KEY = Projection(
    "device_key",
    {"device": str, "state": str, "key": str, "expires_ns": int, "changed_index": int},
    ("device",),
    {
        "device.invited": _device_invited,
        "device.enrolled": _device_enrolled,
        "device.key_rotated": _device_enrolled,
        "device.key_revoked": _device_key_revoked,
    },
)

"""Tables of roots and releases, and of what is desired, released or not."""

from __future__ import annotations

from sqlite_utils import Database

from coordinator.ledger.entries import Entry
from coordinator.ledger.projections import Projection
from schemas.canonical import canonical_json


def _root_published(db: Database, entry: Entry) -> None:
    root = entry.body["root"]
    db.table("root").insert(
        {
            "version": root["document"]["version"],
            "idx": entry.index,
            "root": canonical_json(root).decode("utf-8"),
        }
    )


ROOT = Projection(
    "root",
    {"version": int, "idx": int, "root": str},
    ("version",),
    {"root.published": _root_published},
)


def _model_desired(db: Database, entry: Entry) -> None:
    devices = entry.body["devices"]
    db.table("push").insert(
        {
            "idx": entry.index,
            "version": entry.body["version"],
            "devices": None if devices is None else canonical_json(devices).decode("utf-8"),
            "spares": int(entry.body.get("spares", False)),
            "release_number": None,
        }
    )


def _release_signed(db: Database, entry: Entry) -> None:
    release = entry.body["signed"]["release"]
    db.table("push").update(entry.body["action"], {"release_number": release["number"]})


PUSH = Projection(
    "push",
    {"idx": int, "version": int, "devices": str, "spares": int, "release_number": int},
    ("idx",),
    {"model.desired": _model_desired, "release.signed": _release_signed},
)


def _release(db: Database, entry: Entry) -> None:
    release = entry.body["signed"]["release"]
    db.table("release").insert(
        {
            "number": release["number"],
            "idx": entry.index,
            "action": entry.body["action"],
            "version": release["version"],
            "key": entry.body["signed"]["signature"]["key"],
            "expires_ns": release["expires_ns"],
        }
    )


RELEASE = Projection(
    "release",
    {
        "number": int,
        "idx": int,
        "action": int,
        "version": int,
        "key": str,
        "expires_ns": int,
    },
    ("number",),
    {"release.signed": _release},
)

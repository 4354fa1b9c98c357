"""Devices for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection, json_text
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.devices.choosing import DeviceChoice, chosen
from fleetledger.coordinator.topics.devices.entries import (
    DeviceAdmitted,
    DeviceBorn,
    DeviceDoubled,
    DeviceProblem,
    DeviceRetired,
    DeviceSettled,
    DevicesHeard,
    DevicesSilent,
    DeviceTagged,
)
from fleetledger.coordinator.topics.models.views import OF_DEVICES
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.tags import TagName, TagValue
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


def _owners_tags(db: Database, entry: Entry) -> None:
    said = entry.body.get("tags", {})
    known = db.query("SELECT name FROM device_tag WHERE device = ?", [entry.device])
    for name in {*said, *(row["name"] for row in known)}:
        _say_of(db, str(entry.device), name, {"owner": said.get(name)})


def _operators_tags(db: Database, entry: Entry) -> None:
    for device in entry.body["devices"]:
        for name, value in entry.body["tags"].items():
            _say_of(db, device, name, {"operator": value, "hidden": 0})
        for name in entry.body["removed"]:
            row = _tag_row(db, device, name)
            _say_of(db, device, name, {"operator": None, "hidden": int(row["owner"] is not None)})


def _say_of(db: Database, device: str, name: str, said: dict[str, Any]) -> None:
    """Change a tag of a device; one of which nobody says anything any more is gone."""
    row = {**_tag_row(db, device, name), **said}
    row["value"] = None if row["hidden"] else row["operator"] or row["owner"]
    if row["hidden"] or row["value"]:
        db.table("device_tag").insert(row, replace=True)
    else:
        db.execute("DELETE FROM device_tag WHERE device = ? AND name = ?", [device, name])


def _tag_row(db: Database, device: str, name: str) -> dict[str, Any]:
    query = "SELECT * FROM device_tag WHERE device = ? AND name = ?"
    row = {"device": device, "name": name, "value": None}
    empty = {**row, "owner": None, "operator": None, "hidden": 0}
    return next(iter(db.query(query, [device, name])), empty)


DEVICE_TAG = Projection(
    "device_tag",
    {"device": str, "name": str, "value": str, "owner": str, "operator": str, "hidden": int},
    ("device", "name"),
    {DeviceBorn.kind: _owners_tags, DeviceTagged.kind: _operators_tags},
)
"""What owner and operator say of devices; `value` counts, and is none where it is hidden."""


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


def _problem_told(db: Database, entry: Entry) -> None:
    row = {"device": entry.device, "about": entry.body["about"], "idx": entry.index}
    told = {"time_ns": entry.time_ns, "text": entry.body["text"]}
    db.table("device_problem").insert({**row, **told}, replace=True)


def _problems_over(db: Database, entry: Entry) -> None:
    """Forget those of the run before: a device tells its problems once in every run."""
    db.execute("DELETE FROM device_problem WHERE device = ?", [entry.device])


DEVICE_PROBLEM = Projection(
    "device_problem",
    {"device": str, "about": str, "idx": int, "time_ns": int, "text": str},
    ("device", "about"),
    {DeviceProblem.kind: _problem_told, DeviceBorn.kind: _problems_over},
)
"""What devices said last, in their present runs, that somebody should mend."""


@dataclass(frozen=True)
class DeviceFacts:
    """What the ledger knows of an admitted device."""

    device: str
    admitted_index: int
    boot: str | None
    born_ns: int | None
    born_index: int | None
    provider: str | None
    agent_version: str | None
    """The program that it runs; None before its first birth."""
    features: frozenset[str] | None
    """What it can run; None before its first birth."""
    wire: WireRange | None
    """Versions of the wire that it speaks; None before its first birth."""
    refused_by: WireRange | None
    """Versions that the coordinator speaks, where it is not led."""
    key: str
    """Hash of its key, `invited` or `revoked`; empty where it has none."""
    silent_ns: int | None
    silent_index: int | None
    active_version: int | None
    model_state: str | None
    model_reason: str
    model_version: int | None
    """The version that the last report was about."""
    model_index: int | None
    """The entry with it."""
    evaluated_version: int | None
    mean_iou: float | None
    held: int
    samples: int
    last_index: int
    """Newest of the entries that are known to be of it."""
    last_ns: int


@dataclass(frozen=True)
class ProblemRow:
    """What a device said last of something that somebody should mend."""

    device: str
    about: str
    index: int
    time_ns: int
    text: str


_FACTS = """
WITH given AS (
    SELECT device, sum(state = 'held') AS held, max(idx) AS newest,
        sum(CASE WHEN state = 'held' THEN samples ELSE 0 END) AS samples
    FROM contribution GROUP BY device
), known AS (
    SELECT device.*, device_key.key, device_key.state AS key_state, given.held, given.samples,
        max(admitted_index, coalesce(born_index, 0), coalesce(model_index, 0),
            coalesce(given.newest, 0)) AS last_index
    FROM device LEFT JOIN given USING (device) LEFT JOIN device_key USING (device)
)
SELECT known.*, entry.time_ns AS last_ns FROM known JOIN entry ON entry.idx = known.last_index
ORDER BY device
"""


def facts(ledger: LedgerReader) -> list[DeviceFacts]:
    """Return the admitted devices by name."""
    return [
        DeviceFacts(
            device=row["device"],
            admitted_index=row["admitted_index"],
            boot=row["boot"],
            born_ns=row["born_ns"],
            born_index=row["born_index"],
            provider=row["provider"],
            agent_version=row["agent_version"],
            features=None if row["features"] is None else frozenset(json.loads(row["features"])),
            wire=_wire(row["wire"]),
            refused_by=_wire(row["refused_by"]),
            key=_key(row),
            silent_ns=None if row["key_state"] == "revoked" else row["silent_ns"],
            silent_index=row["silent_index"],
            active_version=row["active_version"],
            model_state=row["model_state"],
            model_reason=row["model_reason"] or "",
            model_version=row["model_version"],
            model_index=row["model_index"],
            evaluated_version=row["evaluated_version"],
            mean_iou=row["mean_iou"],
            held=row["held"] or 0,
            samples=row["samples"] or 0,
            last_index=row["last_index"],
            last_ns=row["last_ns"],
        )
        for row in ledger.db.query(_FACTS)
    ]


def _wire(text: str | None) -> WireRange | None:
    said = json.loads(text or "null")
    return None if said is None else WireRange(**said)


def birth(ledger: LedgerReader, index: int) -> DeviceBorn:
    """Return what a device said of itself when it began a run, as the entry has it."""
    return DeviceBorn.model_validate(ledger.entry(index).body)


def problems(ledger: LedgerReader) -> list[ProblemRow]:
    """Return what devices said last in their present runs, newest first."""
    rows = ledger.db.query(
        "SELECT * FROM device_problem WHERE device NOT IN (SELECT device FROM device_retired)"
        " ORDER BY idx DESC"
    )
    return [
        ProblemRow(row["device"], row["about"], row["idx"], row["time_ns"], row["text"])
        for row in rows
    ]


def tags(ledger: LedgerReader) -> dict[DeviceId, dict[TagName, TagValue]]:
    """Return every admitted device, in the order of admission, with its tags."""
    rows = ledger.db.execute("SELECT device FROM device ORDER BY admitted_index")
    found: dict[str, dict[TagName, TagValue]] = {device: {} for (device,) in rows.fetchall()}
    said = ledger.db.execute(
        "SELECT device, name, value FROM device_tag JOIN device USING (device)"
        " WHERE value IS NOT NULL ORDER BY device, name"
    )
    for device, name, value in said.fetchall():
        found[device][TagName.known(name)] = TagValue.known(value)
    return {DeviceId.known(device): own for device, own in found.items()}


def chosen_in(ledger: LedgerReader, choice: DeviceChoice) -> tuple[DeviceId, ...]:
    """Return the devices that are meant; raise `CommandError` where nobody is."""
    return chosen(choice, tags(ledger))


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
    index: int


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


@dataclass(frozen=True)
class RetiredRow:
    """A device that was retired."""

    device: str
    index: int
    """Of the entry that says so."""
    time_ns: int
    reason: str
    contributions: int
    """That are held still."""


def retired(ledger: LedgerReader) -> list[RetiredRow]:
    """Return the devices that were retired, by name."""
    rows = ledger.db.execute(
        "SELECT device_retired.device, retired_index, retired_ns, reason, count(contribution.idx)"
        " FROM device_retired LEFT JOIN contribution"
        " ON contribution.device = device_retired.device AND contribution.state = 'held'"
        " GROUP BY 1 ORDER BY 1"
    )
    return [RetiredRow(*row) for row in rows.fetchall()]


def retired_names(home: Path) -> list[DeviceId]:
    """Return the names of devices that were retired."""
    with ledger_of(home) as ledger:
        return [DeviceId(row.device) for row in retired(ledger)]


def twins(home: Path) -> list[TwinsRow]:
    """Return the devices whose name two installations have, and that wait for the operator."""
    with ledger_of(home) as ledger:
        return unsettled(ledger)


def unsettled(ledger: LedgerReader) -> list[TwinsRow]:
    """Return the same of an open ledger."""
    rows = ledger.db.query(
        "SELECT * FROM device_twins WHERE kept IS NULL"
        " AND device NOT IN (SELECT device FROM device_retired) ORDER BY device"
    )
    return [TwinsRow(row["device"], row["one"], row["other"], row["changed_index"]) for row in rows]


def _key(row: dict[str, Any]) -> str:
    key = row["key"]
    return row["key_state"] or "" if key is None else VerifyKey(key).key_hash.hex()


def _accuracy(row: dict[str, Any]) -> float | None:
    if row["mean_iou"] is not None:
        return float(row["mean_iou"])
    return row["correct"] / row["total"] if row["total"] else None

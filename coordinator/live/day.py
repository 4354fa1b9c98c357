"""The last day, in tables of `live.db`: how devices were, who was there, what passed.

health     a point for each device every ten minutes
heat       temperatures of these points, over all devices
presence   when a device came and when it went, the last of each in a minute; the device without
           a name is the coordinator, which knows who is there while it is connected
traffic    bytes in and out in each ten minutes
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from fleetledger.coordinator.live.meters import TRAFFIC_BYTES
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    FleetHeat,
    HealthPoint,
    LiveSnapshot,
    PresenceChange,
    TrafficPoint,
)
from fleetledger.schemas.values import DeviceId

if TYPE_CHECKING:
    from sqlite_utils import Database

SECOND_NS = 1_000_000_000
POINT_SECONDS = 600.0
"""Between two points of a device's health, and of the traffic."""
DAY_SECONDS = 86_400.0
"""How long all this is kept."""
Model = TypeVar("Model", bound=BaseModel)
COORDINATOR = ""
"""Name under which `presence` has the coordinator."""
_POINT_NS = int(POINT_SECONDS * SECOND_NS)
_DAY_NS = int(DAY_SECONDS * SECOND_NS)
_MINUTE_NS = 60 * SECOND_NS

_TABLES: Mapping[str, tuple[tuple[str, ...], dict[str, type]]] = {
    "health": (
        ("device", "time_ns"),
        {"device": str, "time_ns": int, "body": str},
    ),
    "presence": (
        ("device", "minute", "here"),
        {"device": str, "minute": int, "time_ns": int, "here": int},
    ),
    "heat": (
        ("time_ns",),
        {"time_ns": int, "devices": int, "total": float, "hottest": float, "device": str},
    ),
    "traffic": (("time_ns",), {"time_ns": int, "bytes_in": int, "bytes_out": int}),
}
"""Key and columns of each."""
_FORGET_PRESENCE = """
DELETE FROM presence WHERE time_ns < :oldest AND EXISTS (
    SELECT 1 FROM presence AS later WHERE later.device IN (presence.device, :coordinator)
    AND later.time_ns > presence.time_ns AND later.time_ns <= :oldest
)
"""
"""Forget what a later row made void before the day began."""
_HEAT = """
INSERT INTO heat VALUES (?, 1, ?3, ?3, ?2) ON CONFLICT DO UPDATE SET
    devices = devices + 1, total = total + excluded.total,
    device = CASE WHEN excluded.hottest > hottest THEN excluded.device ELSE device END,
    hottest = max(hottest, excluded.hottest)
"""
_TRAFFIC = """
INSERT INTO traffic VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET
    bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out
"""


class DayTables:
    """The tables as their one writer has them; it runs in the transaction of who calls."""

    def __init__(self, db: Database) -> None:
        """Make the tables where they are not there, and note when an earlier coordinator ended."""
        self._db = db
        self._there: dict[str, bool] = {}
        self._passed: tuple[int, int] | None = None
        """Bytes in and out that counters had last; they begin at 0 with each coordinator."""
        self._forget_ns = 0
        for name, (key, columns) in _TABLES.items():
            db.table(name).create(columns, pk=key, if_not_exists=True)

    def ended(self, written_ns: int) -> None:
        """Note that an earlier coordinator wrote last then, in order or not."""
        self._note(written_ns, {COORDINATOR: False})

    def begin_anew(self) -> None:
        """Note everybody again: what was added last may not be in the file."""
        self._there.clear()
        self._passed = None

    def add(self, snapshot: LiveSnapshot) -> None:
        """Add what a snapshot says."""
        now, devices = snapshot.coordinator, snapshot.devices.values()
        if now.written_ns >= self._forget_ns:
            self._forget(now.written_ns)
        self._add_presence(now, devices)
        self._add_health(devices)
        self._add_traffic(now.written_ns, snapshot.counters)

    def _forget(self, now_ns: int) -> None:
        self._forget_ns, oldest = now_ns + _POINT_NS, now_ns - _DAY_NS
        for name in ("health", "heat", "traffic"):
            self._db.table(name).delete_where("time_ns < ?", [oldest])
        self._db.execute(_FORGET_PRESENCE, {"oldest": oldest, "coordinator": COORDINATOR})

    def _add_presence(self, now: CoordinatorNow, devices: Iterable[DeviceNow]) -> None:
        knows = now.connected and not now.stopped
        if self._there.get(COORDINATOR) is not knows:
            self._there.clear()  # what was known is void: whoever is there is noted again
            self._note(now.written_ns, {COORDINATOR: knows})
        if knows:
            told: dict[str, bool] = {one.device: one.online for one in devices}
            changed = {name for name, here in told.items() if self._there.get(name) is not here}
            self._note(now.written_ns, {name: told[name] for name in changed})

    def _note(self, time_ns: int, here: Mapping[str, bool]) -> None:
        self._there.update(here)
        rows = [(name, time_ns // _MINUTE_NS, time_ns, there) for name, there in here.items()]
        self._db.conn.executemany("INSERT OR REPLACE INTO presence VALUES (?, ?, ?, ?)", rows)

    def _add_health(self, devices: Iterable[DeviceNow]) -> None:
        for item in devices:
            if item.health is None:
                continue
            point = _point(item)
            time_ns = point.time_ns // _POINT_NS * _POINT_NS
            row = [item.device, time_ns, point.model_dump_json(exclude_none=True)]
            added = self._db.execute("INSERT OR IGNORE INTO health VALUES (?, ?, ?)", row).rowcount
            if added and point.celsius is not None:  # the first of these ten minutes stays
                self._db.execute(_HEAT, [time_ns, item.device, point.celsius])

    def _add_traffic(self, now_ns: int, counters: Iterable[CounterNow]) -> None:
        before, passed = self._passed, _passed(counters)
        self._passed = passed
        if before is not None and passed != before:
            added = [max(0, total - told) for total, told in zip(passed, before, strict=True)]
            self._db.execute(_TRAFFIC, [now_ns // _POINT_NS * _POINT_NS, *added])


def bodies(db: sqlite3.Connection, model: type[Model], source: str, *values: object) -> list[Model]:
    """Return column `body` of a table, or of rows of it."""
    rows = db.execute(f"SELECT body FROM {source}", values)  # noqa: S608 - our own names
    return [model.model_validate_json(body) for (body,) in rows]


def health_points(db: sqlite3.Connection, device: DeviceId) -> list[HealthPoint]:
    """Return a device's health, oldest first."""
    return bodies(db, HealthPoint, "health WHERE device = ? ORDER BY time_ns", device)


def fleet_heat(db: sqlite3.Connection) -> list[FleetHeat]:
    """Return the temperatures of all devices that tell any, oldest first."""
    rows = db.execute("SELECT time_ns, devices, total, hottest, device FROM heat ORDER BY time_ns")
    return [
        FleetHeat(time_ns=time_ns, devices=count, mean=total / count, hottest=most, device=device)
        for time_ns, count, total, most, device in rows
    ]


def presence_changes(
    db: sqlite3.Connection, device: DeviceId | None = None
) -> list[PresenceChange]:
    """Return who came and went, oldest first: of all, or of one device and the coordinator."""
    query = (
        "SELECT device, time_ns, here FROM presence WHERE ?1 IS NULL OR device IN (?1, ?2)"
        " ORDER BY time_ns, device"
    )
    rows = db.execute(query, [device, COORDINATOR])
    return [PresenceChange(name, time_ns, bool(here)) for name, time_ns, here in rows]


def traffic_points(db: sqlite3.Connection) -> list[TrafficPoint]:
    """Return what passed in each ten minutes, oldest first."""
    rows = db.execute("SELECT time_ns, bytes_in, bytes_out FROM traffic ORDER BY time_ns")
    return [
        TrafficPoint(time_ns=time_ns, bytes_in=came, bytes_out=went) for time_ns, came, went in rows
    ]


def _passed(counters: Iterable[CounterNow]) -> tuple[int, int]:
    found = {"in": 0, "out": 0}
    for counter in counters:
        direction = counter.labels.get("direction", "")
        if counter.name == TRAFFIC_BYTES.name and direction in found:
            found[direction] += int(counter.value)
    return found["in"], found["out"]


def _point(item: DeviceNow) -> HealthPoint:
    health = item.health
    assert health is not None
    return HealthPoint(
        time_ns=item.health_ns or 0,
        celsius=max((zone.celsius for zone in health.temperatures), default=None),
        resident_bytes=health.resident_bytes,
        free_disk_bytes=health.free_disk_bytes,
        inference_p95_seconds=health.inference_p95_seconds,
    )

"""What a coordinator remembers of the last day is bounded, and survives its restart."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from fleetledger.coordinator.live.day import (
    COORDINATOR,
    DAY_SECONDS,
    POINT_SECONDS,
    fleet_heat,
    health_points,
    presence_changes,
    traffic_points,
)
from fleetledger.coordinator.live.file import LiveFile, read_day
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    LiveSnapshot,
    PresenceChange,
)
from fleetledger.coordinator.paths import live_path
from fleetledger.schemas.health import DeviceHealth, ThermalZone
from fleetledger.schemas.values import DeviceId

START_NS = 1_700_000_040 * 10**9
"""A whole minute."""


def at(minutes: float) -> int:
    return START_NS + int(minutes * 60) * 10**9


def snapshot(
    minutes: float,
    here: dict[str, bool],
    *,
    connected: bool = True,
    celsius: float | None = None,
    passed: tuple[int, int] = (0, 0),
) -> LiveSnapshot:
    zones = () if celsius is None else (ThermalZone(zone="cpu", celsius=celsius),)
    return LiveSnapshot(
        coordinator=CoordinatorNow(
            fleet="orchard",
            version="1",
            pid=1,
            started_ns=START_NS,
            written_ns=at(minutes),
            connected=connected,
        ),
        devices={
            DeviceId(name): DeviceNow(
                device=DeviceId(name),
                online=online,
                health=DeviceHealth(temperatures=zones),
                health_ns=at(minutes),
            )
            for name, online in here.items()
        },
        counters=tuple(
            CounterNow(
                name="traffic_bytes", labels={"direction": direction, "kind": kind}, value=value
            )
            for direction, value in zip(("in", "out"), passed, strict=True)
            for kind in ("blocks", "heartbeat")
        ),
    )


def changes(home: Path) -> list[tuple[str, float, bool]]:
    return [
        (one.device, (one.time_ns - START_NS) / 60e9, one.here)
        for one in read_day(home, presence_changes)
    ]


def test_who_comes_and_goes_is_noted_once(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    for minutes, online in ((0, True), (1, True), (2, False), (3, False), (9, True)):
        file.write(snapshot(minutes, {"dev-1": online, "dev-2": True}))
    assert changes(tmp_path) == [
        (COORDINATOR, 0, True),
        ("dev-1", 0, True),
        ("dev-2", 0, True),
        ("dev-1", 2, False),
        ("dev-1", 9, True),
    ]
    assert read_day(tmp_path, partial(presence_changes, device=DeviceId("dev-2"))) == [
        PresenceChange(COORDINATOR, START_NS, True),
        PresenceChange("dev-2", START_NS, True),
    ]


def test_of_a_device_that_comes_and_goes_all_the_time_two_rows_a_minute_are_kept(
    tmp_path: Path,
) -> None:
    file = LiveFile(tmp_path)
    for number in range(100):
        file.write(snapshot(number / 30, {"dev-1": number % 2 == 0}))
    assert changes(tmp_path)[-2:] == [("dev-1", 49 * 4 / 60, True), ("dev-1", 3.3, False)]
    assert len(changes(tmp_path)) == 1 + 2 * 4


def test_who_goes_within_the_minute_in_which_it_came_was_there(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    for minutes, online in ((0.1, True), (0.5, False)):
        file.write(snapshot(minutes, {"dev-1": online}))
    assert changes(tmp_path)[1:] == [("dev-1", 0.1, True), ("dev-1", 0.5, False)]


def test_it_survives_a_restart_which_is_a_time_of_which_nobody_knows(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    file.write(snapshot(0, {"dev-1": True, "dev-2": False}, celsius=50))
    file.write(snapshot(7, {}))
    file.close()  # without a word, as after a crash
    file = LiveFile(tmp_path)
    file.write(snapshot(20, {"dev-1": True}, celsius=52))
    assert changes(tmp_path) == [
        (COORDINATOR, 0, True),
        ("dev-1", 0, True),
        ("dev-2", 0, False),
        (COORDINATOR, 7, False),
        (COORDINATOR, 20, True),
        ("dev-1", 20, True),
    ]
    read = partial(health_points, device=DeviceId("dev-1"))
    assert [point.celsius for point in read_day(tmp_path, read)] == [50, 52]


def test_without_the_broker_nobody_is_noted_and_then_everybody(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    for minutes, connected in ((0, True), (1, False), (2, False), (3, True)):
        file.write(snapshot(minutes, {"dev-1": True}, connected=connected))
    assert changes(tmp_path) == [
        (COORDINATOR, 0, True),
        ("dev-1", 0, True),
        (COORDINATOR, 1, False),
        (COORDINATOR, 3, True),
        ("dev-1", 3, True),
    ]


def test_presence_older_than_a_day_is_forgotten_but_for_what_holds_on(tmp_path: Path) -> None:
    file, day = LiveFile(tmp_path), DAY_SECONDS / 60
    for minutes, online in ((0, True), (5, False), (10, True)):
        file.write(snapshot(minutes, {"dev-1": online, "dev-2": True}))
    file.write(snapshot(day + 20, {}))
    assert changes(tmp_path) == [
        (COORDINATOR, 0, True),
        ("dev-2", 0, True),
        ("dev-1", 10, True),
    ]
    file.close()
    LiveFile(tmp_path).write(snapshot(2 * day + 40, {"dev-1": True}))
    assert [name for name, _, _ in changes(tmp_path)] == [COORDINATOR, COORDINATOR, "dev-1"]


def test_health_is_kept_as_points_of_a_day(tmp_path: Path) -> None:
    file, step = LiveFile(tmp_path), POINT_SECONDS / 60
    read = partial(health_points, device=DeviceId("dev-1"))
    for number in range(3):
        file.write(snapshot(number * step / 2, {"dev-1": True}, celsius=50 + number))
    assert [point.celsius for point in read_day(tmp_path, read)] == [50, 52]
    file.write(snapshot(DAY_SECONDS / 60 + step / 2, {"dev-1": True}, celsius=60))
    assert [point.celsius for point in read_day(tmp_path, read)] == [52, 60]


def test_the_heat_of_a_fleet_names_who_is_hottest(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    for name, celsius in (("dev-1", 50), ("dev-2", 80), ("dev-3", None)):
        file.write(snapshot(0, {name: True}, celsius=celsius))
    (heat,) = read_day(tmp_path, fleet_heat)
    assert (heat.devices, heat.mean, heat.hottest, heat.device) == (2, 65, 80, "dev-2")


def test_traffic_is_what_was_added_in_ten_minutes_by_each_coordinator(tmp_path: Path) -> None:
    def read() -> list[tuple[int, int]]:
        found = read_day(tmp_path, traffic_points)
        return [(point.bytes_in, point.bytes_out) for point in found]

    file = LiveFile(tmp_path)
    for minutes, passed in ((0, (5, 7)), (1, (10, 7)), (2, (11, 8)), (12, (20, 8))):
        file.write(snapshot(minutes, {}, passed=passed))
    assert read() == [(12, 2), (18, 0)]  # of two kinds each
    file.close()
    file = LiveFile(tmp_path)
    for minutes, passed in ((30, (0, 0)), (31, (1, 1))):
        file.write(snapshot(minutes, {}, passed=passed))
    assert read() == [(12, 2), (18, 0), (2, 2)]
    file.write(snapshot(DAY_SECONDS / 60 + 25, {}, passed=(1, 1)))
    assert read() == [(2, 2)]


def test_what_a_disk_refused_is_noted_again(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    file.write(snapshot(0, {"dev-1": True}))
    with sqlite3.connect(live_path(tmp_path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            file.write(snapshot(1, {"dev-1": False}))
        other.rollback()
    file.write(snapshot(2, {"dev-1": False}))
    assert changes(tmp_path)[-1] == ("dev-1", 2, False)

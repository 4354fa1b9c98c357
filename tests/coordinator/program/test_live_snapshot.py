"""What is known just now says who is there, since when, and how their machines are."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.live.meters import CONTRIBUTIONS, Meters
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    LiveSnapshot,
)
from fleetledger.coordinator.program.live_snapshot import LiveView
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.presence import Death, Heartbeat
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import SECOND, Bench

DEVICE = DeviceId("dev-1")
BEAT = Heartbeat(
    welcomed=True,
    assignment_action=0,
    desired_action=0,
    outbox_length=2,
    waiting_images=3,
    resident_bytes=4,
    bytes_up=5,
    bytes_down=6,
)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.begin("dev-1")
    return made


def shown(
    bench: Bench, seconds: int, view: LiveView | None = None, ahead_ns: int = 0
) -> LiveSnapshot:
    now = CoordinatorNow(
        fleet="orchard", version="1", pid=1, started_ns=0, written_ns=seconds * SECOND
    )
    core = bench.core
    view = view or LiveView()
    return view.draw(core.state, core.live, now, Meters(), ahead_ns=ahead_ns)


def test_what_a_device_says_of_itself_is_told(bench: Bench) -> None:
    bench.now_ns = 5 * SECOND
    health = DeviceHealth(power_mode="15W")
    bench.message("dev-1", BEAT)
    bench.message("dev-1", health)
    found = shown(bench, 6).devices[DEVICE]
    assert found == DeviceNow(
        device=DEVICE,
        online=True,
        boot=bench.senders[DEVICE].boot,
        since_ns=6 * SECOND,
        heard_ns=5 * SECOND,
        outbox=2,
        waiting_images=3,
        resident_bytes=4,
        bytes_up=5,
        bytes_down=6,
        health=health,
        health_ns=5 * SECOND,
    )


def test_a_snapshot_tells_since_when_a_device_is_there_or_away(bench: Bench) -> None:
    view = LiveView()
    found = [shown(bench, 2, view)]
    bench.now_ns = 3 * SECOND
    bench.message("dev-1", BEAT)
    found.append(shown(bench, 4, view))
    bench.message("dev-1", Death())
    found.append(shown(bench, 6, view))
    bench.message("dev-1", Death())
    found.append(shown(bench, 8, view))
    told = [item.devices[DEVICE] for item in found]
    assert [(item.online, item.since_ns) for item in told] == [
        (True, 2 * SECOND),
        (True, 2 * SECOND),
        (False, 6 * SECOND),
        (False, 6 * SECOND),
    ]


def test_only_devices_are_drawn_of_which_something_was_heard(bench: Bench) -> None:
    bench.command(AdmitDevice(device=DeviceId("dev-2")))
    bench.born("dev-2")
    view = LiveView()
    assert set(shown(bench, 2, view).devices) == {DEVICE, DeviceId("dev-2")}
    assert shown(bench, 4, view).devices == {}
    bench.message("dev-1", BEAT)
    assert set(shown(bench, 6, view).devices) == {DEVICE}
    assert len(shown(bench, 8, view, ahead_ns=60 * SECOND).devices) == 2, "times of all are others"


def test_of_a_device_that_was_not_seen_it_is_not_told_since_when_it_is_away(bench: Bench) -> None:
    bench.message("dev-1", Death())
    found = shown(bench, 2).devices[DEVICE]
    assert (found.online, found.since_ns) == (False, None)


def test_who_is_not_admitted_is_not_among_the_devices(bench: Bench) -> None:
    bench.message("dev-9", BEAT)
    assert list(shown(bench, 2).devices) == [DEVICE]


def test_times_are_those_of_the_calendar_where_entries_are_ahead_of_it(bench: Bench) -> None:
    bench.now_ns = 3605 * SECOND
    bench.message("dev-1", BEAT)
    assert shown(bench, 6, ahead_ns=3600 * SECOND + 123).devices[DEVICE].heard_ns == 5 * SECOND


def test_meters_are_told_by_name_and_labels() -> None:
    meters = Meters()
    meters.add(CONTRIBUTIONS, "refused")
    meters.add(CONTRIBUTIONS, "accepted", count=2)
    assert meters.counters() == (
        CounterNow(name="contributions", labels={"result": "accepted"}, value=2),
        CounterNow(name="contributions", labels={"result": "refused"}, value=1),
    )

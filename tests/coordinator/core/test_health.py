"""How a device's machine is comes from the run that is connected, and makes no entry."""

from __future__ import annotations

import pytest

from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.health import DeviceHealth, ThermalZone
from fleetledger.schemas.presence import Death
from fleetledger.schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import FLEET, SECOND, Bench

DEVICE = DeviceId("dev-1")


def health(celsius: float) -> DeviceHealth:
    return DeviceHealth(temperatures=(ThermalZone(zone="cpu", celsius=celsius),))


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.begin("dev-1")
    return made


def noted(bench: Bench) -> DeviceHealth:
    found = bench.core.live.seen(DEVICE).health
    assert found is not None
    return DeviceHealth.model_validate_json(found)


def test_health_is_noted_and_nothing_is_recorded_or_answered(bench: Bench) -> None:
    entries = len(bench.entries)
    bench.now_ns = 7 * SECOND
    assert bench.message("dev-1", health(50)) == []
    live = bench.core.live.device(DEVICE)
    assert (noted(bench), live.health_ns, live.heard_ns) == (health(50), 7 * SECOND, 7 * SECOND)
    assert len(bench.entries) == entries


def test_health_of_a_run_that_is_not_connected_is_left_out(bench: Bench) -> None:
    bench.message("dev-1", health(50))
    now = bench.senders[DEVICE]
    bench.senders[DEVICE] = Sender(FLEET, DEVICE, BootId.fresh())
    bench.message("dev-1", health(90))
    assert noted(bench) == health(50)
    bench.senders[DEVICE] = now
    bench.message("dev-1", Death())
    bench.message("dev-1", health(90))
    assert noted(bench) == health(50)


def test_health_of_a_device_that_is_not_admitted_is_left_out() -> None:
    bench = Bench()
    bench.message("dev-9", health(50))
    assert bench.core.live.device(DeviceId("dev-9")).health is None
    assert bench.entries == []


def test_a_calendar_that_is_set_back_takes_the_time_of_health_along(bench: Bench) -> None:
    bench.now_ns = 7 * SECOND
    bench.message("dev-1", health(50))
    bench.core.live.set_back(2 * SECOND)
    assert bench.core.live.device(DEVICE).health_ns == 5 * SECOND

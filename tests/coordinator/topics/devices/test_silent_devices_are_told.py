"""Devices of which nothing came for long are told apart from quiet ones, and recorded."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import BeatCoordinator, Request, TellOperator
from fleetledger.coordinator.core.rules import Rules, SilenceRules
from fleetledger.coordinator.settings import CoordinatorSettings, rules_of_serving
from fleetledger.coordinator.topics.clock.commands import CorrectClock
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.devices.entries import DevicesHeard, DevicesSilent
from fleetledger.coordinator.topics.keys.state import DeviceKeys
from fleetledger.schemas.presence import Birth, Death, Heartbeat
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from tests.coordinator.core.harness import CAPABLE, SECOND, Bench

HOUR, DAY = 3600.0, 86_400.0
YEAR_NS = 365 * 86_400 * SECOND
SILENCE = SilenceRules(beat_seconds=HOUR, silent_seconds=DAY)
BEAT = Heartbeat(
    welcomed=True, outbox_length=0, waiting_images=0, resident_bytes=0, bytes_up=0, bytes_down=0
)


@pytest.fixture
def bench() -> Bench:
    made = Bench(rules=Rules(silence=SILENCE))
    made.now_ns += 2 * YEAR_NS
    made.handle(inputs.CoordinatorConnected())
    made.wait(0)
    return made


def silent(bench: Bench) -> list[tuple[str, ...]]:
    return [body.devices for body, _, _ in bench.entries if isinstance(body, DevicesSilent)]


def heard(bench: Bench) -> list[tuple[str, ...]]:
    return [body.devices for body, _, _ in bench.entries if isinstance(body, DevicesHeard)]


def hours(bench: Bench, count: int, *speaking: str) -> list[Request]:
    """Let hours pass; these devices send a heartbeat in each."""
    found: list[Request] = []
    for _ in range(count):
        for device in speaking:
            bench.message(device, BEAT)
        found += bench.wait(HOUR)
    return found


def test_a_device_that_says_nothing_for_a_day_is_recorded_once_and_told(bench: Bench) -> None:
    bench.begin("camera-1", "camera-2", "camera-3")
    asked = hours(bench, 50, "camera-1")
    assert silent(bench) == [("camera-2", "camera-3")]
    (told,) = [item.text for item in asked if isinstance(item, TellOperator)]
    assert "for 24 h from camera-2, camera-3" in told
    assert "somebody keeps back" in told


def test_it_is_told_that_a_device_is_heard_again(bench: Bench) -> None:
    bench.begin("camera-1", "camera-2")
    hours(bench, 30, "camera-1")
    hours(bench, 2, "camera-1", "camera-2")
    assert heard(bench) == [("camera-2",)]
    assert not bench.core.state.devices.admitted[DeviceId("camera-2")].silent
    hours(bench, 30, "camera-1")
    assert silent(bench) == [("camera-2",), ("camera-2",)]


def test_what_anybody_can_say_again_is_no_sign_of_life(bench: Bench) -> None:
    bench.begin("camera-1")
    for _ in range(30):
        birth = Birth(installation=BootId("0123456789abcdef"), capabilities=CAPABLE)
        bench.message("camera-1", birth)
        bench.message("camera-1", Death())
        bench.wait(HOUR)
    assert silent(bench) == [("camera-1",)]


def test_a_device_that_never_came_is_told_after_its_own_day(bench: Bench) -> None:
    hours(bench, 30)
    bench.command(AdmitDevice(device=DeviceId("camera-9")))
    hours(bench, 20)
    assert silent(bench) == []
    hours(bench, 10)
    assert silent(bench) == [("camera-9",)]


def test_a_device_that_was_shut_out_is_not_missed(bench: Bench) -> None:
    bench.begin("camera-1")
    bench.core.state.keys.by_device[DeviceId("camera-1")] = DeviceKeys(revoked=True)
    hours(bench, 50)
    assert silent(bench) == []


def test_a_restart_begins_to_listen_anew(bench: Bench) -> None:
    bench.begin("camera-1")
    hours(bench, 20)
    again = Bench(rules=bench.rules, now_ns=bench.now_ns)
    for body, device, time_ns in bench.entries:
        again.core.state.apply(body, device, time_ns)
    hours(again, 20)
    assert silent(again) == []
    hours(again, 10)
    assert silent(again) == [("camera-1",)]


def test_a_thousand_silent_devices_are_one_entry(bench: Bench) -> None:
    bench.begin(*(f"camera-{number}" for number in range(1001)))
    asked = hours(bench, 30)
    assert [len(devices) for devices in silent(bench)] == [1000, 1]
    (told,) = [item.text for item in asked if isinstance(item, TellOperator)]
    assert "and 991 more" in told


def test_the_coordinator_is_heard_when_it_connects_and_every_hour(bench: Bench) -> None:
    first = Bench(rules=Rules(silence=SILENCE))
    assert BeatCoordinator(0, 0) in first.handle(inputs.CoordinatorConnected())
    asked = [item for _ in range(240) for item in bench.wait(60)]
    beats = [item for item in asked if isinstance(item, BeatCoordinator)]
    assert len(beats) == 4


@pytest.mark.parametrize("by_ns", [-YEAR_NS, YEAR_NS])
def test_nobody_is_silent_because_the_calendar_was_corrected(bench: Bench, by_ns: int) -> None:
    bench.begin("camera-1")
    hours(bench, 3, "camera-1")
    bench.core.live.calendar_ns = bench.now_ns - by_ns
    bench.command(CorrectClock())
    assert [body.by_ns for body, _, _ in bench.entries if isinstance(body, ClockCorrected)] == [
        by_ns
    ]
    bench.now_ns, bench.core.live.calendar_ns = bench.now_ns - by_ns, None
    hours(bench, 20)
    assert silent(bench) == []
    hours(bench, 6)
    assert silent(bench) == [("camera-1",)]


def test_simulated_coordinators_are_not_heard_and_ask_nobody_to_be() -> None:
    settings = CoordinatorSettings(fleet=FleetId("mill"))
    assert settings.rules.silence == SilenceRules()
    assert rules_of_serving(settings).silence == SILENCE
    bench = Bench()
    bench.begin("camera-1")
    assert not [
        item for item in hours(bench, 50) if isinstance(item, BeatCoordinator | TellOperator)
    ]

"""Real programs over Mosquitto: who is there, and how their machines are, is seen from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.live.snapshot import CoordinatorNow, DeviceNow, serves
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import ProcessFleet

pytestmark = pytest.mark.broker

METHOD = '[method]\nname = "stsa"\nsettings = {map_width = 40}\n'
DEVICES = ("dev-a", "dev-b")
AWAY_SECONDS = 20.0


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessFleet]:
    folder = tmp_path_factory.mktemp("presence")
    logs = folder / "logs"
    logs.mkdir()
    with MosquittoBroker(folder / "broker", DEVICES) as broker, Children(logs) as children:
        made = ProcessFleet(folder, broker, children)
        made.set_up_coordinator(METHOD)
        for device in DEVICES:
            made.set_up_agent(device)
        yield made


def coordinator(fleet: ProcessFleet) -> CoordinatorNow:
    found = read_live(fleet.home)
    assert found is not None
    return found.coordinator


def device(fleet: ProcessFleet, name: str) -> DeviceNow | None:
    found = read_live(fleet.home)
    return None if found is None else found.devices.get(DeviceId(name))


def is_there(fleet: ProcessFleet, name: str) -> bool:
    found = device(fleet, name)
    return found is not None and found.online


def test_a_device_that_is_killed_is_seen_to_be_away(fleet: ProcessFleet) -> None:
    fleet.start_coordinator()
    for name in DEVICES:
        fleet.start_agent(name)
    fleet.until(lambda: is_there(fleet, "dev-a") and is_there(fleet, "dev-b"))
    fleet.until(lambda: device(fleet, "dev-a").health is not None)  # type: ignore[union-attr]
    seen = device(fleet, "dev-a")
    assert seen is not None
    assert seen.health is not None
    assert (seen.health.resident_bytes or 0) > 1 << 20
    assert seen.health.free_disk_bytes
    assert serves(coordinator(fleet), time.time_ns())
    assert coordinator(fleet).connected

    killed_ns = time.time_ns()
    fleet.kill("dev-a")
    fleet.until(lambda: not is_there(fleet, "dev-a"))
    assert time.time_ns() - killed_ns < AWAY_SECONDS * 1_000_000_000
    away = device(fleet, "dev-a")
    assert away is not None
    assert away.since_ns is not None
    assert away.since_ns >= killed_ns
    assert is_there(fleet, "dev-b")

    fleet.start_agent("dev-a")
    fleet.until(lambda: is_there(fleet, "dev-a"))
    fleet.stop("coordinator")
    assert coordinator(fleet).stopped

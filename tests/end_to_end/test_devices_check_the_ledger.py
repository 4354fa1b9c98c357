"""Devices that have the coordinator's key: receipts prove, and a shorter ledger is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.topics.contributions.entries import ContributionAccepted
from coordinator.topics.devices.entries import DeviceProblem
from coordinator.trust.keys import coordinator_key
from device_agent.core.state import AgentRules, LedgerTrust
from schemas.values import DeviceId
from tests.coordinator.shell_harness import FLEET, MemoryCoordinator
from tests.end_to_end.memory_fleet import RULES, MemoryFleet, put_pictures
from transport.faults import Faults
from transport.memory import InMemoryBroker


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    broker = InMemoryBroker(faults=Faults(seed=3, drop=0.1, duplicate=0.1))
    made = MemoryFleet(tmp_path, broker, map_width=60, form="exact")
    yield made
    made.close()


def trusting(fleet: MemoryFleet, device: str) -> AgentRules:
    key = coordinator_key(fleet.coordinator.home, FLEET).verify_key
    return replace(RULES, trust=LedgerTrust(FLEET, DeviceId(device), key))


def learn(fleet: MemoryFleet) -> None:
    for name, shown in (("one", "vertical"), ("two", "horizontal")):
        device = fleet.add(name, trusting(fleet, name))
        put_pictures(device.data, shown, range(20))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 20, "horizontal": 20})
    fleet.until(lambda: all(device.outbox == 0 for device in fleet.devices.values()))


def seen(fleet: MemoryFleet) -> list[int]:
    sizes = (device.status().ledger_seen for device in fleet.devices.values())
    return [size or 0 for size in sizes]


def told(fleet: MemoryFleet, about: str) -> list[str]:
    problems = (body for body in fleet.entries(DeviceProblem))
    return [p.text for p in problems if isinstance(p, DeviceProblem) and p.about == about]


def test_what_devices_gave_is_proven_to_them_also_after_a_restart(fleet: MemoryFleet) -> None:
    learn(fleet)
    fleet.until(lambda: min(seen(fleet)) > 0)
    before = min(seen(fleet))
    fleet.restart_coordinator()
    put_pictures(fleet.devices["one"].data, "vertical", range(20, 30))
    put_pictures(fleet.devices["two"].data, "horizontal", range(20, 30))
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 30, "horizontal": 30})
    fleet.until(lambda: all(device.outbox == 0 for device in fleet.devices.values()))
    fleet.until(lambda: min(seen(fleet)) > before)
    assert not told(fleet, "ledger")


def test_a_coordinator_restored_from_a_backup_is_told_which_entries_it_lacks(
    fleet: MemoryFleet, tmp_path: Path
) -> None:
    learn(fleet)
    home = fleet.coordinator.home
    fleet.coordinator.kill()
    shutil.copytree(home, tmp_path / "backup")
    fleet.coordinator = MemoryCoordinator(home, fleet.broker)
    size = fleet.coordinator.engine.ledger.size
    for name, shown in (("one", "vertical"), ("two", "horizontal")):
        put_pictures(fleet.devices[name].data, shown, range(20, 40))
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 40, "horizontal": 40})
    fleet.until(lambda: min(seen(fleet)) > size)
    fleet.coordinator.kill()
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "backup", home)
    fleet.coordinator = MemoryCoordinator(home, fleet.broker)

    lacks = "restored from a backup that ends before entry"
    fleet.until(lambda: any(lacks in text for text in told(fleet, "ledger")))


def test_a_device_with_another_key_keeps_what_it_gave(fleet: MemoryFleet, tmp_path: Path) -> None:
    stranger = coordinator_key(tmp_path / "stranger", FLEET).verify_key
    rules = replace(RULES, trust=LedgerTrust(FLEET, DeviceId("one"), stranger))
    one = fleet.add("one", rules)
    put_pictures(one.data, "vertical", range(20))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: fleet.entries(ContributionAccepted))
    fleet.until(lambda: any("not believed" in text for text in one.status().problems))
    assert one.outbox > 0

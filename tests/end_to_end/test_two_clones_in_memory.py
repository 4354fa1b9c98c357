"""Two agents with one card: what the device gave stays, until the operator says who goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import IntakeRules
from fleetledger.coordinator.topics.contributions.entries import ContributionWithdrawn
from fleetledger.coordinator.topics.devices.commands import SettleTwins
from fleetledger.coordinator.topics.devices.entries import DeviceDoubled
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import RULES
from tests.device_agent.making import told_texts
from tests.end_to_end.memory_fleet import MemoryDevice, MemoryFleet, put_pictures

CLASSES = ("vertical", "horizontal")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    patient = RULES.model_copy(update={"intake": IntakeRules()})
    fleet = MemoryFleet(tmp_path, InMemoryBroker(), patient)
    for name in ("camera", "other"):
        fleet.add(name)
    yield fleet
    fleet.close()


def give_192(fleet: MemoryFleet) -> MemoryDevice:
    camera, other = fleet.devices["camera"], fleet.devices["other"]
    for name in CLASSES:
        put_pictures(camera.data, name, range(96))
        put_pictures(other.data, name, range(1000, 1008))
    fleet.begin(*CLASSES)
    fleet.until(lambda: sum(fleet.counted_samples().values()) == 208 and camera.outbox == 0)
    return camera


def found(fleet: MemoryFleet, *machines: MemoryDevice) -> DeviceDoubled:
    """Let machines with one name push each other out until the coordinator has found them."""
    turns = 0

    def seen() -> bool:
        nonlocal turns
        turns += 1
        if turns % 200 == 0:  # each lives for a while, as after the back-off of a takeover
            machines[turns // 200 % len(machines)].take_over()
        return bool(fleet.entries(DeviceDoubled))

    fleet.until(seen)
    (body,) = fleet.entries(DeviceDoubled)
    assert isinstance(body, DeviceDoubled)
    return body


@pytest.mark.nightly  # over a real broker by day, in test_a_cloned_card_over_a_broker.py
def test_a_copied_card_costs_the_original_nothing(fleet: MemoryFleet, tmp_path: Path) -> None:
    camera = give_192(fleet)
    before = dict(fleet.coordinator.engine.core.state.contributions.counted)
    camera.stop()
    clone = camera.copied(tmp_path / "copy")
    camera.start()
    clone.start()
    named = found(fleet, camera, clone)
    assert set(named.runs) == {camera.boot, clone.boot}
    put_pictures(camera.data, "vertical", range(2000, 2004))
    put_pictures(clone.data, "horizontal", range(3000, 3004))
    for machine in (camera, clone):
        machine.take_over()
        fleet.until(lambda m=machine: m.outbox)
        fleet.until(lambda m=machine: f"this one is {m.boot}" in " ".join(told_texts(m.status())))
    assert fleet.coordinator.engine.core.state.contributions.counted == before
    assert fleet.entries(ContributionWithdrawn) == []
    known = fleet.coordinator.engine.core.state.devices
    doubled = known.admitted[camera.name].doubled
    assert doubled is not None
    assert set(doubled.runs) == {camera.boot, clone.boot}

    answer = fleet.coordinator.command(
        SettleTwins(device=camera.name, installation=named.runs[named.runs.index(camera.boot)])
    )
    assert "goes on as device camera" in answer
    clone.take_over()
    fleet.until(lambda: "shut this one out" in " ".join(told_texts(clone.status())))
    camera.take_over()
    fleet.until(lambda: camera.outbox == 0)
    assert fleet.counted_samples() == {"vertical": 108, "horizontal": 104}
    assert known.admitted[camera.name].doubled is None
    assert clone.outbox == 1, "its images are not lost"
    clone.stop()


@pytest.mark.nightly
def test_two_homes_with_one_name_withdraw_nothing(fleet: MemoryFleet, tmp_path: Path) -> None:
    camera = give_192(fleet)
    before = dict(fleet.coordinator.engine.core.state.contributions.counted)
    camera.stop()
    twin = camera.copied(tmp_path / "twin")
    shutil.rmtree(twin.home / "state")
    camera.start()
    fleet.until(lambda: camera.status().coordinator)
    twin.start()
    found(fleet, camera, twin)
    assert fleet.coordinator.engine.core.state.contributions.counted == before
    fleet.coordinator.command(SettleTwins(device=camera.name, installation=camera.boot))
    camera.take_over()
    put_pictures(camera.data, "vertical", range(2000, 2004))
    fleet.until(lambda: sum(fleet.counted_samples().values()) == 212)
    assert fleet.entries(ContributionWithdrawn) == []
    twin.stop()

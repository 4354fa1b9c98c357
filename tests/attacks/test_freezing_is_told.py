"""Who has the broker and says nothing new cannot make a frozen fleet look like a quiet one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import SilenceRules
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.topics.devices.entries import DevicesHeard, DevicesSilent
from fleetledger.device_agent.core.state import LedgerTrust
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import CoordinatorBirth, CoordinatorHeartbeat
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.attacks.target import (
    NOW,
    Attack,
    Target,
    copy_victim,
    desired,
    files_of,
    make_victim,
    manifest_of,
    release,
)
from tests.attacks.test_old_words_are_not_believed import Attacker
from tests.coordinator import shell_harness
from tests.coordinator.shell_harness import FLEET
from tests.end_to_end.memory_fleet import RULES, MemoryFleet, put_pictures

CAMERA = DeviceId("camera-1")
SILENT_SECONDS, PATIENCE = 2.0, 60.0
SILENCE = SilenceRules(beat_seconds=0.2, silent_seconds=SILENT_SECONDS)
YEAR = 365 * 86_400 * 10**9


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    rules = shell_harness.RULES.model_copy(update={"silence": SILENCE})
    made = MemoryFleet(tmp_path, InMemoryBroker(), rules, map_width=60, form="exact")
    key = coordinator_key(made.coordinator.home, FLEET).verify_key
    trust = LedgerTrust(FLEET, CAMERA, key)
    camera = made.add(CAMERA, replace(RULES, trust=trust, silent_seconds=SILENT_SECONDS))
    put_pictures(camera.data, "vertical", range(20))
    put_pictures(camera.data, "horizontal", range(20))
    made.begin("vertical", "horizontal")
    made.until(lambda: camera.status().active_version == 1)
    yield made
    made.close()


def wait_frozen(found: Callable[[], object]) -> None:
    """Wait while the coordinator's words are kept back: here it does not come to say any."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_device_that_is_kept_from_the_coordinator_tells_its_owner(fleet: MemoryFleet) -> None:
    camera, attacker = fleet.devices[CAMERA], Attacker(fleet.broker)
    fleet.until(lambda: not camera.status().silence)
    kinds = (CoordinatorHeartbeat.kind, CoordinatorBirth.kind, DesiredModel.kind)
    fleet.until(lambda: attacker.recorded(kinds[0]))

    def silent() -> bool:
        for kind in kinds:  # all that was signed, again and again
            for message in attacker.recorded(kind):
                attacker.repeat(message)
        return bool(camera.status().silence)

    wait_frozen(silent)
    assert "somebody keeps back what it says" in camera.status().silence
    fleet.until(lambda: not camera.status().silence)


def test_the_operator_is_told_of_a_device_that_is_kept_back(fleet: MemoryFleet) -> None:
    camera = fleet.devices[CAMERA]
    camera.cut_off()
    fleet.until(lambda: fleet.entries(DevicesSilent))
    (silent,) = fleet.entries(DevicesSilent)
    assert isinstance(silent, DevicesSilent)
    assert silent.devices == (CAMERA,)
    camera.reconnect()
    fleet.until(lambda: fleet.entries(DevicesHeard))


@pytest.mark.parametrize("clock_ns", [0, NOW - YEAR, NOW - 1])
def test_a_restart_with_a_clock_that_was_set_back_makes_nothing_valid_again(
    tmp_path: Path, clock_ns: int
) -> None:
    victim = copy_victim(make_victim(tmp_path / "made"), tmp_path / "device")
    victim.hear(NOW)
    victim.close()
    victim = Target(tmp_path / "device")
    frozen = desired(release(6, 3, expires_ns=NOW), 3)
    victim.suffer(Attack(frozen, files_of(3), now_ns=clock_ns, later_ns=clock_ns))
    assert "has signed a later time" in victim.reason()
    assert victim.fetched == []
    in_time = desired(release(7, 3, expires_ns=NOW + 1), 3, action=101)
    victim.suffer(Attack(in_time, files_of(3), now_ns=clock_ns, later_ns=clock_ns))
    assert victim.running == manifest_of(3).digest, victim.reason()
    victim.close()

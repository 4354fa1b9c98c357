"""Who has the coordinator's broker password, and not its key, brings no old model back.

The device has no root: it runs what its coordinator desires. The attacker has recorded all that
was said, and says signed messages of the coordinator again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.device_agent.cli.deletion import forget_checkpoint
from fleetledger.device_agent.core.state import AgentRules, LedgerTrust
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import CoordinatorBirth
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import FLEET, MemoryCoordinator
from tests.device_agent.making import told_texts
from tests.end_to_end.memory_fleet import RULES, MemoryFleet, put_pictures

CAMERA = DeviceId("camera-1")


class Attacker:
    """Hears everything, and says again what was said."""

    def __init__(self, broker: InMemoryBroker) -> None:
        self._connection = broker.connection("attacker", user="coordinator")
        self._connection.subscribe("#")
        self._connection.start()
        self._heard: list[IncomingMessage] = []

    def recorded(self, kind: str) -> list[IncomingMessage]:
        """All messages of a kind so far, oldest first."""
        while (event := self._connection.next_event(0)) is not None:
            if isinstance(event, IncomingMessage) and event.payload:
                self._heard.append(event)
        return [item for item in self._heard if decode(item.payload).header.kind == kind]

    def repeat(self, message: IncomingMessage) -> None:
        retained = OutgoingMessage(message.topic, message.payload, qos=1, retain=True)
        self._connection.publish(retained)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    made = MemoryFleet(tmp_path, InMemoryBroker(), map_width=60, form="exact")
    yield made
    made.close()


def trusting(fleet: MemoryFleet) -> AgentRules:
    key = coordinator_key(fleet.coordinator.home, FLEET).verify_key
    return replace(RULES, trust=LedgerTrust(FLEET, CAMERA, key))


def runs(fleet: MemoryFleet) -> int | None:
    return fleet.devices[CAMERA].status().active_version


def ran(fleet: MemoryFleet) -> list[int]:
    """The versions that the device has said it runs, in their order."""
    said = fleet.entries(DeviceModelStatus)
    versions = [body.status.version for body in said if isinstance(body, DeviceModelStatus)]
    return [version for version, _ in groupby(versions)]


def learn_two_models(fleet: MemoryFleet) -> None:
    """Bring model 1 to the device, restart the coordinator, and bring model 2."""
    camera = fleet.add(CAMERA, trusting(fleet))
    put_pictures(camera.data, "vertical", range(20))
    put_pictures(camera.data, "horizontal", range(20))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: runs(fleet) == 1)
    fleet.restart_coordinator()
    put_pictures(camera.data, "vertical", range(20, 40))
    fleet.until(lambda: runs(fleet) == 2 and camera.outbox == 0)


def first_model_again(attacker: Attacker) -> None:
    """Say the first birth again, and that model 1 is desired."""
    attacker.repeat(attacker.recorded(CoordinatorBirth.kind)[0])
    desired = attacker.recorded(DesiredModel.kind)
    assert decode(desired[0].payload).read(DesiredModel).version == 1
    attacker.repeat(desired[0])


def test_an_old_birth_and_an_old_desired_model_bring_no_old_model_back(fleet: MemoryFleet) -> None:
    attacker = Attacker(fleet.broker)
    learn_two_models(fleet)
    camera = fleet.devices[CAMERA]

    first_model_again(attacker)
    fleet.until(lambda: any("is not believed" in text for text in told_texts(camera.status())))
    camera.stop()  # what the broker keeps is the attacker's word now
    first_model_again(attacker)
    camera.start()
    fleet.until(lambda: any("is not believed" in text for text in told_texts(camera.status())))
    put_pictures(camera.data, "horizontal", range(20, 40))
    fleet.until(lambda: runs(fleet) == 3 and camera.outbox == 0)
    assert ran(fleet) == [1, 2, 3]


def test_the_fleets_own_way_back_is_taken(fleet: MemoryFleet) -> None:
    learn_two_models(fleet)
    fleet.coordinator.command(PushModel(version=1))
    fleet.until(lambda: runs(fleet) == 1)


def test_a_ledger_from_a_backup_is_believed_once_the_owner_says_so(
    fleet: MemoryFleet, tmp_path: Path
) -> None:
    camera = fleet.add(CAMERA, trusting(fleet))
    put_pictures(camera.data, "vertical", range(20))
    put_pictures(camera.data, "horizontal", range(20))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: runs(fleet) == 1 and camera.outbox == 0)
    home = fleet.coordinator.home
    fleet.coordinator.kill()
    shutil.copytree(home, tmp_path / "backup")
    fleet.coordinator = MemoryCoordinator(home, fleet.broker)
    put_pictures(camera.data, "vertical", range(20, 40))
    fleet.until(lambda: runs(fleet) == 2 and camera.outbox == 0)
    fleet.coordinator.kill()
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "backup", home)
    fleet.coordinator = MemoryCoordinator(home, fleet.broker)

    fleet.until(lambda: any("is not believed" in text for text in told_texts(camera.status())))
    camera.stop()
    assert "forgotten: a ledger of" in forget_checkpoint(AgentHome.open(camera.home))
    camera.start()
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 40, "horizontal": 20})
    fleet.until(lambda: camera.outbox == 0)

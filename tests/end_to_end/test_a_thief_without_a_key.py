"""Programs on a Mosquitto: devices enrol and learn, and a stolen password puts nothing in.

The thief has a device's broker password, listens to all that the broker lets that device hear, and
says what it likes in the device's name. It does not have the device's key.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import ModelRules, StageRules
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.settings import CoordinatorSettings, MethodSection, SecuritySettings
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.keys.entries import DeviceEnrolled
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus, ModelSolved
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.device_agent.cli.enrolment import enrol
from fleetledger.device_agent.settings import AgentDataSettings, AgentSettings, ModelSettings
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.enrolment import Enrolment, device_key_name
from fleetledger.schemas.envelope import Sender, decode, encode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Birth, Death
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.topics import FleetTopics, UpLeaf
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId
from fleetledger.simulator.engines.mqtt.homes import (
    agent_broker,
    carry_out,
    coordinator_broker,
    write_agent,
    write_coordinator,
)
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.simulator.engines.rounds import import_backbone
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.interface import Connection, IncomingMessage, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.coordinator.core.harness import CAPABLE
from tests.coordinator.shell_harness import PREPROCESSING
from tests.end_to_end.memory_fleet import put_pictures
from tests.end_to_end.process_fleet import PATIENCE, ProcessFleet

pytestmark = pytest.mark.broker

A, B = DeviceId("dev-a"), DeviceId("dev-b")
SHOWN = {A: "vertical", B: "horizontal"}
CLASSES = tuple(ClassName(name) for name in SHOWN.values())


class KeyedFleet(ProcessFleet):
    """A fleet whose coordinator requires keys."""

    name = "keyed"

    def set_up(self) -> None:
        """Write all homes, invite and enrol the devices; no program runs yet."""
        settings = CoordinatorSettings(
            fleet=FleetId(self.name),
            broker=coordinator_broker(self.broker),
            method=MethodSection(name="stsa", settings={"map_width": 60, "form": "exact"}),
            stages=StageRules(quiet_seconds=0.2),
            models=ModelRules(solve_every_seconds=0.2),
            security=SecuritySettings(require_keys=True),
        )
        write_coordinator(self.home, self.broker, settings)
        data = AgentDataSettings(folder=Path("data"), scan_seconds=0.5, longest_pause_seconds=0)
        cpu = ModelSettings(providers=("CPUExecutionProvider",))
        for device, shown in SHOWN.items():
            home = self.folder / device
            agent = AgentSettings(
                device=device,
                fleet=FleetId(self.name),
                broker=agent_broker(self.broker),
                data=data,
                model=cpu,
            )
            write_agent(home, self.broker, agent)
            put_pictures(home / "data", shown, range(20))
            enrol(home, invite(self.home, device, hours=1).token.text)
        carry_out(
            self.home,
            import_backbone(self.home, "pixels", scaling_backbone(PREPROCESSING), PREPROCESSING),
        )
        carry_out(self.home, OpenStage(class_names=CLASSES))

    def counted(self) -> dict[str, int]:
        """Images in accepted contributions, by device."""
        totals: dict[str, int] = {}
        for device, body in self.entries(ContributionAccepted):
            totals[str(device)] = totals.get(str(device), 0) + sum(body.part.samples.values())
        return totals

    def enrolled(self) -> dict[str, str]:
        return {str(device): body.key for device, body in self.entries(DeviceEnrolled)}

    def running(self) -> set[str | None]:
        """Devices on which a model runs."""
        return {d for d, body in self.entries(DeviceModelStatus) if body.status.state == "active"}


class Thief:
    """Somebody with the broker password of a device."""

    def __init__(self, broker: MosquittoBroker, device: DeviceId) -> None:
        self.device = device
        self.topics = FleetTopics(FleetId(KeyedFleet.name))
        user, password = broker.credentials(device)
        self._connection: Connection = MqttConnection(
            MqttSettings(
                client_id=f"{user}.thief",
                host=broker.host,
                port=broker.port,
                user=user,
                password=password,
            )
        )
        self._connection.subscribe(str(self.topics.down(device, "ctl")))
        self._connection.start()
        self._connection.wait_connected(300)
        self._boot = BootId.fresh()
        self._key = SigningKey.fresh(device_key_name(self.topics.fleet, device))
        self._senders = (
            Sender(self.topics.fleet, device, self._boot),
            Sender(self.topics.fleet, device, self._boot, signer=self._key),
        )

    def speak(self) -> None:
        """Say what would become entries: unsigned, signed by a key of its own, and to enrol it."""
        said: list[tuple[Message, UpLeaf]] = [
            (Birth(installation=self._boot, capabilities=CAPABLE), "state"),
            (Nothing(stage=1, reason="stolen"), "msg"),
            (Problem(about="image", text="stolen"), "msg"),
            (Death(reason="stolen"), "state"),
        ]
        for sender in self._senders:
            for body, leaf in said:
                self._publish(sender, body, leaf)
        enrolment = Enrolment(key=self._key.verify_key, mac=Digest.of(b"guess"))
        self._publish(self._senders[1], enrolment, "msg")

    def hears(self) -> str:
        """Return what the device is told first of the messages that were not believed."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            event = self._connection.next_event(0.5)
            if isinstance(event, IncomingMessage):
                self._connection.acknowledge(event)
                return decode(event.payload).read(Problem).text
        raise AssertionError("the device was told nothing")

    def stop(self) -> None:
        self._connection.stop()

    def _publish(self, sender: Sender, body: Message, leaf: UpLeaf) -> None:
        topic = self.topics.up(self.device, leaf)
        self._connection.publish(
            OutgoingMessage(topic, encode(sender.seal(body, sent_ms=0, topic=topic)))
        )


@pytest.fixture
def fleet(tmp_path: Path, mosquitto: MosquittoBroker) -> Iterator[KeyedFleet]:
    logs = tmp_path / "logs"
    logs.mkdir()
    with Children(logs) as children:
        made = KeyedFleet(tmp_path, mosquitto, children)
        made.set_up()
        yield made


def lines_about_the_thief(fleet: KeyedFleet) -> int:
    """The coordinator writes one for the 1st, 2nd, 4th, 8th … message that it does not believe."""
    return fleet.said("coordinator").count("dev-b not believed, ")


def of(fleet: KeyedFleet, kind: type[EntryBody], device: str) -> list[EntryBody]:
    return [body for found, body in fleet.entries(kind) if found == device]


def test_a_stolen_password_puts_nothing_into_the_ledger(
    fleet: KeyedFleet, mosquitto: MosquittoBroker
) -> None:
    thief = Thief(mosquitto, B)
    try:
        fleet.start_coordinator()
        fleet.until(lambda: "connected to the broker" in fleet.said("coordinator"))
        thief.speak()
        assert "this fleet requires keys" in thief.hears()
        fleet.until(lambda: lines_about_the_thief(fleet) == 4)
        assert fleet.entries(DeviceBorn) == []
        assert fleet.enrolled() == {}

        fleet.start_agent(A)
        fleet.start_agent(B)
        fleet.until(lambda: fleet.counted() == {A: 20, B: 20})
        fleet.until(lambda: fleet.running() == {A, B})
        keys = fleet.enrolled()
        assert set(keys) == {A, B}
        thief.speak()
        fleet.until(lambda: lines_about_the_thief(fleet) == 5)

        fleet.signal("coordinator", signal.SIGKILL)
        fleet._forget("coordinator")
        fleet.start_coordinator()
        # No session waits for it at the broker: what is said before it is there is lost.
        fleet.until(lambda: fleet.said("coordinator").count("connected to the broker") == 2)
        thief.speak()
        fleet.until(lambda: lines_about_the_thief(fleet) == 9)
        for device, shown in SHOWN.items():
            put_pictures(fleet.folder / device / "data", shown, range(20, 30))
        fleet.until(lambda: fleet.counted() == {A: 30, B: 30})
    finally:
        thief.stop()

    assert fleet.enrolled() == keys, "the first keys are the only ones"
    assert {len(of(fleet, DeviceBorn, device)) for device in SHOWN} == {1}
    assert fleet.entries(NothingReported) == []
    assert len(fleet.entries(ModelSolved)) >= 1
    assert fleet.operator("ledger", "verify")
    secrets = [path.read_text("ascii") for path in fleet.folder.rglob("keys/*.pem")]
    for log in fleet.children.logs.iterdir():
        text = log.read_text(encoding="utf-8", errors="replace")
        assert "fl1." not in text
        assert not any(secret.splitlines()[1] in text for secret in secrets)
    assert not list((fleet.home / "keys" / "invitations").iterdir()), "secrets go when used"

"""Mosquitto, root and release keys in a safe: updates, going back, rotation, and a stolen home."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.broker import mqtt_settings
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned, RootPublished
from fleetledger.coordinator.trust.key_files import make_key
from fleetledger.schemas.envelope import COORDINATOR, Sender, encode
from fleetledger.schemas.keys import KeyName
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.releases import Release, SignedRelease
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from tests.end_to_end.released_fleet import PATIENCE, ReleasedFleet, RunningCoordinator

Body = TypeVar("Body", bound=EntryBody)
pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]


@pytest.fixture
def fleet(tmp_path: Path, mosquitto: MosquittoBroker) -> Iterator[ReleasedFleet]:
    """A fleet whose agent has the first root, and whose keys lie in a safe."""
    made = ReleasedFleet(tmp_path, mosquitto, "safe-orchard", "dev-a")
    made.start_agent()
    try:
        yield made
    finally:
        made.close()


class Thief:
    """Somebody with a copy of the coordinator's home, passwords and keys in it."""

    def __init__(self, fleet: ReleasedFleet) -> None:
        self.home = fleet.folder / "stolen"
        shutil.copytree(fleet.home, self.home)
        settings = load(self.home)
        self.key = coordinator_key(self.home, settings.fleet)
        self._topics = FleetTopics(settings.fleet)
        self._device = fleet.device
        self._sender = Sender(
            settings.fleet, DeviceId(COORDINATOR), BootId.fresh(), signer=self.key
        )
        self._connection = MqttConnection(mqtt_settings(self.home, settings, role="thief"))
        self._connection.start()
        self._connection.wait_connected(PATIENCE)

    def recorded(self, kind: type[Body]) -> list[Body]:
        """Return what the stolen ledger says."""
        with LedgerReader.open_read_only(ledger_path(self.home)) as ledger:
            found = ledger.find(kind)
            return [kind.model_validate(entry.body) for entry in found]

    def send(self, body: DesiredModel) -> None:
        topic = self._topics.down(self._device, "desired")
        envelope = self._sender.seal(body, sent_ms=0, topic=topic)
        self._connection.publish(OutgoingMessage(topic, encode(envelope), retain=True))

    def close(self) -> None:
        self._connection.stop()


def forgeries(thief: Thief) -> Iterator[tuple[str, DesiredModel]]:
    """Yield what the thief tries, with what the device must say to each."""
    model = thief.recorded(ModelExported)[1]
    old = thief.recorded(ReleaseSigned)[1].signed
    assert (model.version, old.release.version) == (2, 2)
    roots = [body.root for body in thief.recorded(RootPublished)]
    newest: RootDocument = roots[-1].document
    release = Release(fleet=newest.fleet, number=99, manifest=model.manifest.digest, version=2)
    own = make_key(thief.home / "own.pem", KeyName(f"{newest.fleet}/release"))
    taken = newest.model_copy(
        update={"version": newest.version + 1, "release_keys": (own.verify_key,)}
    )

    def body(release: SignedRelease | None, *more: SignedRoot) -> DesiredModel:
        return DesiredModel(
            action=2**62,
            version=2,
            manifest=model.manifest,
            files=model.files,
            release=release,
            roots=(*roots, *more),
        )

    yield "there is none", body(None)
    yield "or no longer", body(old)
    yield "does not name", body(SignedRelease.of(release, thief.key))
    forged = SignedRoot(document=taken).signed_by(thief.key).signed_by(own)
    yield "0 of the 2 signatures", body(SignedRelease.of(release, own), forged)


def test_a_fleet_with_an_offline_release_key(fleet: ReleasedFleet) -> None:
    fleet.learn("vertical", "horizontal")
    fleet.until(lambda: fleet.waits(1))
    assert fleet.runs() is None

    assert "release 1 is signed" in fleet.sign(1, "r1")
    fleet.until(lambda: fleet.runs() == 1)
    fleet.learn("spot")
    fleet.until(lambda: fleet.waits(2))
    fleet.sign(2, "r1")
    fleet.until(lambda: fleet.runs() == 2)

    assert "waits for `fleetledger model sign 1 --key FILE --home" in fleet.model(
        "rollback", "--yes"
    )
    fleet.sign(1, "r1")
    fleet.until(lambda: fleet.runs() == 1)
    assert fleet.releases() == [(1, 1), (2, 2), (3, 1)]

    fleet.trust("rotate", *fleet.release_key("r2"), *fleet.safe_keys("--sign-with", "a", "c"))
    fleet.until(lambda: "root version 2" in getattr(fleet.status(), "trust", ""))
    fleet.until(lambda: fleet.waits(1))
    fleet.sign(1, "r2")
    fleet.until(lambda: "release 4 runs" in getattr(fleet.status(), "trust", ""))

    fleet.coordinator.stop()
    thief = Thief(fleet)
    for says, body in forgeries(thief):
        thief.send(body)
        fleet.until(lambda says=says: says in fleet.told())  # type: ignore[misc]
        assert fleet.runs() == 1
    thief.close()

    fleet.coordinator = RunningCoordinator(fleet.home)
    fleet.model("push", "2", "--yes")
    fleet.sign(2, "r2")
    fleet.until(lambda: fleet.runs() == 2)
    assert fleet.releases()[3:] == [(4, 1), (5, 2)]

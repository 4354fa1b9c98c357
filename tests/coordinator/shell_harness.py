"""A whole coordinator on the in-memory broker: real core, ledger, blocks, STSA and export.

The device is scripted: it computes real contributions, but has no agent around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.rules import (
    IntakeRules,
    ModelRules,
    PrivacyRules,
    Rules,
    StageRules,
)
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.keys import coordinator_key, note_signer
from fleetledger.coordinator.live.meters import Meters
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.models.job_runner import ThreadJobRunner
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.models.payload_check import PayloadCheck
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.program.authenticator import Authenticator
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.program.file_server import FileServer
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.program.payload_intake import PayloadIntake
from fleetledger.coordinator.program.quotas import Quotas
from fleetledger.coordinator.program.shell import CoordinatorParts, Shell
from fleetledger.coordinator.settings import CoordinatorSettings, MethodSection, write_new
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.methods.registry import descriptor, statistics_coordinator, statistics_device
from fleetledger.methods.statistics.part import PartContext
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.envelope import INLINE_LIMIT, Envelope, Sender, decode, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Birth, Capabilities
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, ClassName, DeviceId, FleetId
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.transfer import BlockExchange
from tests.coordinator.core.harness import CAPABLE

FLEET = FleetId("memory-fleet")
TOPICS = FleetTopics(FLEET)
COORDINATOR = DeviceId("coordinator")
PREPROCESSING = Preprocessing(
    mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image"
)
PATIENCE = 300.0
Found = TypeVar("Found", bound=Message)


def write_home(
    home: Path,
    method: str = "stsa",
    privacy: PrivacyRules = PrivacyRules(),  # noqa: B008 - frozen
    **method_settings: object,
) -> None:
    """Write the settings and the backbone files of a small coordinator."""
    learning = MethodSection(name=method, settings=dict(method_settings))
    write_new(home, CoordinatorSettings(fleet=FLEET, method=learning, privacy=privacy))
    (home / "pixels.onnx").write_bytes(scaling_backbone(PREPROCESSING))
    (home / "pixels.json").write_text(PREPROCESSING.model_dump_json(), encoding="utf-8")


RULES = Rules(
    stages=StageRules(quiet_seconds=0.2),
    models=ModelRules(solve_every_seconds=0.2),
    intake=IntakeRules(replacement_seconds=0.5),
)


class MemoryCoordinator:
    """A coordinator whose shell is stepped by the test."""

    def __init__(
        self,
        home: Path,
        broker: InMemoryBroker,
        rules: Rules = RULES,
        *,
        signs: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        calendar: Callable[[], int] | None = None,
        run: str = "",
    ) -> None:
        """Open the coordinator of a home; another `run` beside one has connections of its own."""
        self.home = home
        signer = note_signer(home, FLEET) if signs else None
        self.engine = LedgerEngine.open(
            home, rules, clock=clock.time_ns, calendar=calendar, sign_note=signer
        )
        self._inbox = OperatorInbox(home)
        self._broker = broker
        control = broker.connection(f"coordinator.control{run}")
        sender = Sender(FLEET, COORDINATOR, BootId.fresh(), signer=coordinator_key(home, FLEET))
        self._exchange = BlockExchange(
            broker.connection(f"coordinator.data{run}"),
            TOPICS,
            Sender(FLEET, COORDINATOR, BootId.fresh()),
        )
        self._exchange.start()
        self._job_runner = ThreadJobRunner(control.wake)
        store = BlobStore(blob_folder(home))
        self.blobs = Blobs(self.engine.ledger, store)
        maker = ModelMaker(home, store)
        invitations = Invitations(home)
        self.authenticator = Authenticator(
            TOPICS, lambda: self.engine.core.state, invitations.secret
        )
        self.quotas = Quotas(rules.intake)
        self.meters = Meters()
        self.shell = Shell(
            CoordinatorParts(
                topics=TOPICS,
                sender=sender,
                connection=control,
                engine=self.engine,
                inbox=self._inbox,
                job_runner=self._job_runner,
                intake=PayloadIntake(
                    self._exchange,
                    self._job_runner,
                    store,
                    home / "incoming",
                    PayloadCheck(),
                    maker.networks,
                ),
                maker=maker,
                files=FileServer(self._exchange, lambda: self.blobs),
                store=store,
                invitations=invitations,
                authenticator=self.authenticator,
                clock=clock,
                quotas=self.quotas,
                meters=self.meters,
            )
        )
        self.shell.start()

    def command(self, command: Command) -> str:
        ticket = self._inbox.submit(command)
        answer = self.until(lambda: self._inbox.answer_to(ticket))
        assert answer is not None
        assert answer.done, answer.text
        return answer.text

    def begin(self, *devices: str, classes: tuple[str, ...]) -> None:
        """Admit devices, import the backbone, open a stage."""
        for device in devices:
            self.command(AdmitDevice(device=DeviceId(device)))
        backbone = prepare_backbone(
            self.home, self.home / "pixels.onnx", self.home / "pixels.json", trusted=True
        )
        self.command(ImportBackbone(backbone=backbone))
        self.open(*classes)

    def open(self, *classes: str) -> None:
        self.command(OpenStage(class_names=tuple(ClassName(name) for name in classes)))

    def until(self, found: Callable[[], object]) -> object:
        """Step until `found` gives something; fail after a while."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.shell.step(0.02)
            value = found()
            if value:
                return value
        raise AssertionError("the coordinator did not come to it")

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.engine.ledger.entries()]

    def kill(self) -> None:
        """End without a goodbye; what the workers made and nobody took is lost."""
        for role in ("control", "data"):
            self._broker.drop_connection(f"coordinator.{role}", comes_back=False)
        self._let_go()

    def close(self) -> None:
        self.shell.say_goodbye()
        self._let_go()

    def _let_go(self) -> None:
        self._exchange.stop()
        self._job_runner.stop()
        self._inbox.close()
        self.engine.close()


class ScriptedDevice:
    """Speaks the protocol by hand."""

    def __init__(self, name: str, broker: InMemoryBroker, coordinator: MemoryCoordinator) -> None:
        self.name = DeviceId(name)
        self._coordinator = coordinator
        self._sender = Sender(FLEET, self.name, BootId.fresh())
        self._control = broker.connection(f"{name}.control")
        self._control.subscribe(
            *TOPICS.to_device(self.name, "assignment", "desired", "rcpt", "ctl"),
            TOPICS.coordinator_state,
        )
        self._control.start()
        self.exchange = BlockExchange(
            broker.connection(f"{name}.data"),
            TOPICS,
            Sender(FLEET, self.name, BootId.fresh()),
            device=self.name,
        )
        self.exchange.start()
        self.received: list[Envelope] = []

    def born(self, capabilities: Capabilities = CAPABLE) -> None:
        birth = Birth(installation=BootId("0123456789abcdef"), capabilities=capabilities)
        self.send(birth, leaf="state")

    def send(self, body: Message, attachment: bytes = b"", leaf: str = "msg") -> bytes:
        data = encode(self._sender.seal(body, sent_ms=0, attachment=attachment))
        self.send_bytes(data, leaf)
        return data

    def send_bytes(self, data: bytes, leaf: str = "msg") -> None:
        topic = TOPICS.up(self.name, leaf)  # type: ignore[arg-type]
        self._control.publish(OutgoingMessage(topic, data))

    def give(self, contribution: Contribution, payload: bytes) -> None:
        self.send(contribution, payload if contribution.offer is None else b"")

    def wait_for(self, kind: type[Found], count: int = 1) -> Found:
        """Step the coordinator until `count` messages of a kind are there; return the last."""

        def seen() -> list[Envelope]:
            self._drain()
            found = [item for item in self.received if item.header.kind == kind.kind]
            return found if len(found) >= count else []

        found = self._coordinator.until(seen)
        assert isinstance(found, list)
        return found[-1].read(kind)  # type: ignore[no-any-return]

    def fetch(self, offer: Offer, folder: Path) -> bytes:
        """Fetch what the coordinator offers."""
        future = self.exchange.fetch(offer, folder / offer.digest, self.name, seconds=PATIENCE)
        return future.result(PATIENCE).read_bytes()

    def close(self) -> None:
        self._control.stop()
        self.exchange.stop()

    def _drain(self) -> None:
        while (event := self._control.next_event(0)) is not None:
            if isinstance(event, IncomingMessage):
                self.received.append(decode(event.payload))
                self._control.acknowledge(event)


def contribution_of(
    coordinator: MemoryCoordinator,
    features: npt.NDArray[np.float32],
    labels: list[str],
    *,
    part: int = 0,
    stage: int = 1,
    revision: int = 0,
    exchange: BlockExchange | None = None,
) -> tuple[Contribution, bytes]:
    """Compute a real contribution; payloads above the inline limit are offered on `exchange`."""
    lineage = coordinator.engine.core.state.lineages.current
    assert lineage is not None
    assignment = statistics_coordinator(lineage.method).read_assignment(lineage.settings)
    context = PartContext(class_names=coordinator.engine.core.state.classes.accepted_names)
    made = statistics_device(lineage.method).finish(assignment, features, labels, context)
    offer = None
    if len(made.payload) > INLINE_LIMIT:
        offer = exchange.serve(made.payload) if exchange else offer_of(made.payload)
    body = Contribution(
        key=PartKey(stage=stage, part=part),
        revision=revision,
        payload_kind=descriptor(lineage.method).payload_kinds[0],
        method=lineage.method,
        lineage=lineage.frozen.digest,
        payload=made.digest,
        payload_bytes=len(made.payload),
        offer=offer,
        samples=made.samples,
    )
    return body, made.payload

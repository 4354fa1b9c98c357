"""What is sent: a coordinator's home, ready to serve, and real contributions from many devices."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.inputs import EnrolmentProven, OperatorCommand, PayloadOutcome
from fleetledger.coordinator.core.requests import AnswerOperator
from fleetledger.coordinator.core.rules import IntakeRules, ModelRules, StageRules
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    MethodSection,
    SecuritySettings,
    load,
    write_new,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.keys.commands import InviteDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.methods.registry import statistics_coordinator, statistics_device
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.envelope import Envelope, Sender, decode, encode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId
from fleetledger.transport.brokers import MosquittoBroker

FLEET = FleetId("rate")
CLASSES = tuple(ClassName(f"class-{index}") for index in range(5))
PREPROCESSING = Preprocessing(
    mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image"
)
SAMPLES_PER_PART = 20
LONG_SECONDS = 24 * 3600.0
"""Neither a stage closes nor a model is solved while it is measured."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    devices: int
    parts: int
    """Contributions of each device, per side and round."""
    window: int
    """Contributions of a device under way at a time."""
    map_width: int

    @property
    def names(self) -> list[DeviceId]:
        """The devices' ids."""
        return [DeviceId(f"device-{number:03}") for number in range(self.devices)]

    @property
    def count(self) -> int:
        """Contributions per side and round."""
        return self.devices * self.parts


def make_home(
    home: Path,
    plan: Plan,
    broker: MosquittoBroker,
    intake: IntakeRules | None = None,
    *,
    require_keys: bool = False,
) -> BackboneImported:
    """Set up a coordinator with all devices admitted and a stage open; return its frozen model."""
    settings = _settings(plan, broker)
    chosen = {
        "intake": intake or settings.intake,
        "security": SecuritySettings(require_keys=require_keys),
    }
    write_new(home, settings.model_copy(update=chosen))
    write_private(home / "broker.password", broker.credentials("coordinator")[1].encode())
    (home / "pixels.onnx").write_bytes(scaling_backbone(PREPROCESSING))
    (home / "pixels.json").write_text(PREPROCESSING.model_dump_json(), encoding="utf-8")
    backbone = prepare_backbone(home, home / "pixels.onnx", home / "pixels.json", trusted=True)
    admitted = [AdmitDevice(device=name) for name in plan.names]
    imported = ImportBackbone(backbone=backbone)
    _carry_out(home, [*admitted, imported, OpenStage(class_names=CLASSES)])
    return backbone


def make_keys(plan: Plan) -> dict[DeviceId, SigningKey]:
    """Return a key for every device."""
    return {name: SigningKey.fresh(device_key_name(FLEET, name)) for name in plan.names}


def enrol(home: Path, keys: Mapping[DeviceId, SigningKey]) -> None:
    """Let devices' keys count: from here on only what they signed does."""
    token = Digest.of(b"a token that is used here and nowhere else")
    expires_ns = time.time_ns() + round(LONG_SECONDS * 1e9)
    invited = [InviteDevice(device=name, invitation=token, expires_ns=expires_ns) for name in keys]
    _carry_out(home, invited, prefix="invite")
    engine = LedgerEngine.open(home, load(home).rules)
    try:
        proofs = [EnrolmentProven(name, key.verify_key, token) for name, key in keys.items()]
        engine.process(proofs)
    finally:
        engine.close()


def _settings(plan: Plan, broker: MosquittoBroker) -> CoordinatorSettings:
    username, _ = broker.credentials("coordinator")
    method = {
        "map_width": plan.map_width,
        "form": "exact",
        "max_contributions": max(4096, plan.count),
    }
    return CoordinatorSettings(
        fleet=FLEET,
        broker=CoordinatorBrokerSettings(
            host=broker.host,
            port=broker.port,
            username=DeviceId(username),
            password_file=Path("broker.password"),
        ),
        method=MethodSection(settings=method),
        stages=StageRules(quiet_seconds=LONG_SECONDS, deadline_seconds=LONG_SECONDS),
        models=ModelRules(automatic=False, solve_every_seconds=LONG_SECONDS),
    )


def _carry_out(home: Path, wanted: Sequence[Command], prefix: str = "setup") -> None:
    engine = LedgerEngine.open(home, load(home).rules)
    try:
        for number, command in enumerate(wanted):
            for request in engine.process([OperatorCommand(f"{prefix}-{number}", command)]):
                assert not isinstance(request, AnswerOperator) or request.done, request
    finally:
        engine.close()


def fill(home: Path, plan: Plan, lineage: BackboneImported) -> None:
    """Take in all contributions of a plan, group by group, as if their payloads had come.

    All are one contribution under other numbers, and no payload is stored.
    """
    random = np.random.default_rng(1)
    sender = Sender(FLEET, plan.names[0], BootId.fresh())
    one = _contribution(sender, PartKey(stage=1, part=0), lineage, random).read(Contribution)
    engine = LedgerEngine.open(home, load(home).rules)
    try:
        for part in range(plan.parts):
            engine.process(PayloadOutcome(name, _like(one, name, part)) for name in plan.names)
    finally:
        engine.close()


def _like(one: Contribution, device: DeviceId, part: int) -> Contribution:
    """Return a contribution that differs in its number and payload alone."""
    payload = Digest.of(f"{device} {part}".encode())
    return one.model_copy(update={"key": PartKey(stage=1, part=part), "payload": payload})


def make_messages(plan: Plan, lineage: BackboneImported, stage: int = 1) -> list[list[bytes]]:
    """Return the envelopes of every device: different real statistics, payloads attached."""
    random = np.random.default_rng(1)
    keys = [PartKey(stage=stage, part=part) for part in range(plan.parts)]
    return [
        [encode(_contribution(sender, key, lineage, random)) for key in keys]
        for sender in (Sender(FLEET, name, BootId.fresh()) for name in plan.names)
    ]


def signed(
    messages: Sequence[Sequence[bytes]], keys: Mapping[DeviceId, SigningKey], birth: Digest
) -> list[list[bytes]]:
    """Return the same contributions, signed for the run of the coordinator with this birth."""
    found = []
    for (name, key), given in zip(keys.items(), messages, strict=True):
        sender = Sender(FLEET, name, BootId.fresh(), signer=key)
        found.append([sealed_again(sender, one, birth) for one in given])
    return found


def sealed_again(sender: Sender, message: bytes, birth: Digest) -> bytes:
    """Return a contribution under the next number of a sender, which may sign it."""
    envelope = decode(message)
    sealed = sender.seal(
        envelope.read(Contribution),
        sent_ms=envelope.header.sent_ms,
        attachment=envelope.attachment,
        refers_to=birth,
        topic=FleetTopics(FLEET).up(sender.name, "msg"),
    )
    return encode(sealed)


def make_answer() -> bytes:
    """Return a receipt as the coordinator sends it, for the bare client that answers."""
    answer = Accepted(ledger_index=1234)
    receipt = Receipt(about="contribution", key=PartKey(stage=1, part=99), answer=answer)
    sender = Sender(FLEET, DeviceId("coordinator"), BootId.fresh(), next_sequence=1234)
    return encode(sender.seal(receipt, sent_ms=1_700_000_000_000))


def _contribution(
    sender: Sender, key: PartKey, lineage: BackboneImported, random: Generator
) -> Envelope:
    assignment = statistics_coordinator(lineage.method).read_assignment(lineage.settings)
    largest = assignment.settings.largest
    features = random.integers(0, largest, (SAMPLES_PER_PART, assignment.columns), endpoint=True)
    labels = [CLASSES[index % len(CLASSES)] for index in range(SAMPLES_PER_PART)]
    made = statistics_device(lineage.method).finish(assignment, features, labels)
    body = Contribution(
        key=key,
        revision=0,
        payload_kind="statistics",
        method=lineage.method,
        lineage=lineage.frozen.digest,
        payload=made.digest,
        payload_bytes=len(made.payload),
        samples=made.samples,
    )
    return sender.seal(body, sent_ms=1_700_000_000_000, attachment=made.payload)

"""A core without a shell: entries are applied at once and kept in a list, time is a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import AnswerOperator, Request, SendToDevice
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.work import (
    ExportHead,
    SolveHead,
    TakePayload,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.models.entries import ModelExported, ModelSolved
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import Parity, Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Birth, Capabilities
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.requirements import Requirement
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId
from fleetledger.schemas.wire import WireRange

FLEET = FleetId("test-fleet")
SECOND = 1_000_000_000
CAPABLE = Capabilities(
    agent_version="0.1.0",
    python="3.11",
    machine="x86_64",
    features=frozenset({"numpy", "onnxruntime"}),
    provider="CPUExecutionProvider",
    memory_mib=1024,
)


def can_learn(able: Capabilities, method: str, requires: Iterable[Requirement] = ()) -> bool:
    """Whether a device has what a method needs; networks need torch."""
    has = all(each.feature in able.features for each in requires)
    return has and ("torch" if method == "rounds" else "onnxruntime") in able.features


def offer(text: str) -> Offer:
    """An offer whose digests stand for `text`."""
    data = text.encode()
    digest = Digest.of(data)
    return Offer(digest=digest, size=len(data), list_digest=Digest.of(bytes.fromhex(digest)))


PREPROCESSING = Preprocessing(
    mode="L", size=(8, 8), mean=(0.0,), deviation=(1.0,), input_name="image"
)
BACKBONE = BackboneImported(
    name="digits",
    frozen=offer("frozen"),
    golden=offer("golden"),
    preprocessing=PREPROCESSING,
    backbone_width=64,
    feature_width=1250,
    method="stsa",
    settings={},
)


def names(*texts: str) -> tuple[ClassName, ...]:
    return tuple(ClassName(text) for text in texts)


def contribution(
    payload: str,
    *,
    part: int = 0,
    stage: int = 1,
    revision: int = 0,
    samples: dict[str, int] | None = None,
    **changes: object,
) -> Contribution:
    """A contribution whose payload is the bytes of `payload`."""
    data = payload.encode()
    values = {
        "key": PartKey(stage=stage, part=part),
        "revision": revision,
        "payload_kind": "statistics",
        "method": "stsa",
        "lineage": BACKBONE.frozen.digest,
        "payload": Digest.of(data),
        "payload_bytes": len(data),
        "samples": samples or {"cat": 3},
    }
    return Contribution.model_validate(values | changes)


@dataclass
class Bench:
    """Drives a core the way the shell does."""

    rules: Rules = field(default_factory=Rules)
    now_ns: int = SECOND

    def __post_init__(self) -> None:
        self.core = Core(self.rules, can_learn=can_learn)
        self.entries: list[tuple[EntryBody, DeviceId | None, int]] = []
        self.senders: dict[DeviceId, Sender] = {}

    def handle(self, happening: inputs.Input) -> list[Request]:
        decision = self.core.handle(happening, self.now_ns)
        told: list[Request] = []
        for entry in decision.entries:
            told.extend(self.core.apply(entry, self.now_ns))
            self.entries.append((entry.body, entry.device, self.now_ns))
        return [*decision.requests, *told]

    def restart(self) -> None:
        """Begin anew with what the ledger holds, as after a crash."""
        self.core = Core(self.rules, can_learn=can_learn)
        for body, device, time_ns in self.entries:
            self.core.state.apply(body, device, time_ns)

    def message(self, device: str, body: Message, attachment: bytes = b"") -> list[Request]:
        name = DeviceId(device)
        sender = self.senders.setdefault(name, Sender(FLEET, name, BootId.fresh()))
        envelope = sender.seal(body, sent_ms=0, attachment=attachment)
        return self.handle(inputs.DeviceMessage(name, envelope))

    def command(self, command: Command) -> AnswerOperator:
        requests = self.handle(inputs.OperatorCommand(f"ticket {self.core.state.size}", command))
        return next(r for r in requests if isinstance(r, AnswerOperator))

    def begin(self, *devices: str, classes: tuple[str, ...] = ("cat", "dog")) -> None:
        """Admit devices, let them be born, import a backbone and open stage 1."""
        for device in devices:
            self.command(AdmitDevice(device=DeviceId(device)))
            self.born(device)
        self.command(ImportBackbone(backbone=BACKBONE))
        self.command(OpenStage(class_names=names(*classes)))

    def born(
        self,
        device: str,
        *,
        capabilities: Capabilities = CAPABLE,
        wire: WireRange = WireRange(),  # noqa: B008 - frozen
    ) -> list[Request]:
        self.senders[DeviceId(device)] = Sender(FLEET, DeviceId(device), BootId.fresh())
        birth = Birth(installation=BootId("0123456789abcdef"), capabilities=capabilities, wire=wire)
        return self.message(device, birth)

    def give(self, device: str, body: Contribution) -> Receipt:
        """Send a contribution and let its payload arrive if it is wanted; return the receipt."""
        requests = self.message(device, body, attachment=b"")
        taken = [r for r in requests if isinstance(r, TakePayload)]
        if taken:
            requests = self.handle(inputs.PayloadOutcome(DeviceId(device), taken[0].contribution))
        return receipt(requests)

    def wait(self, seconds: float) -> list[Request]:
        self.now_ns += int(seconds * SECOND)
        return self.handle(inputs.Tick())

    def make_model(self, request: SolveHead) -> list[Request]:
        """Answer a request for a model as a worker would, up to the export."""
        self.handle(solved(request, self.core.state.contributions.sum.parts))
        requests = self.wait(0)
        export = next(r for r in requests if isinstance(r, ExportHead))
        return self.handle(exported(export.solved.version))


def solved(request: SolveHead, contributions: int = 0) -> ModelSolved:
    return ModelSolved(
        version=request.version,
        lineage=request.lineage.frozen.digest,
        ledger_size=request.ledger_size,
        contributions=contributions,
        class_names=request.class_names,
        aggregate=Digest.of(repr(request.ledger_size).encode()),
        head=Digest.of(b"head"),
        method="stsa",
        fingerprint={"cpu": "test"},
        seconds=0.1,
    )


def exported(version: int) -> ModelExported:
    return ModelExported(
        version=version,
        manifest=offer(f"manifest {version}"),
        files=(offer(f"head {version}"), BACKBONE.frozen, BACKBONE.golden),
        parity=Parity(max_absolute_difference=0, agreement=1, samples=8, runtime="test"),
    )


def receipt(requests: list[Request]) -> Receipt:
    """The one receipt among the requests."""
    found = [r.body for r in requests if isinstance(r, SendToDevice) and r.leaf == "rcpt"]
    assert len(found) == 1, requests
    assert isinstance(found[0], Receipt)
    return found[0]


def sent(requests: list[Request], kind: type[Message]) -> list[Message]:
    """The bodies of one kind that are to be sent."""
    return [r.body for r in requests if isinstance(r, SendToDevice) and isinstance(r.body, kind)]

"""A fleet of cameras and its coordinator in simulated time: real core, ledger, sums and exports."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.contribution_rate.load import CLASSES, PREPROCESSING
from coordinator.assembling import BackOffice, open_office
from coordinator.core.commands import Command
from coordinator.core.inputs import DeviceMessage, Input, OperatorCommand, PayloadStored, Tick
from coordinator.core.requests import AnswerOperator, Request, SendToDevice
from coordinator.core.rules import RolloutRules
from coordinator.core.work import ExportHead, SolveHead
from coordinator.ledger.blobs import Blobs
from coordinator.ledger.mirror import Mirror
from coordinator.ledger.reader import ledger_of
from coordinator.ledger.restore import LedgerOwner, restore
from coordinator.making.backbones import prepare_backbone
from coordinator.reading.tables import TABLES
from coordinator.settings import FILE_NAME, CoordinatorSettings, MethodSection, write_new
from coordinator.topics.devices.commands import AdmitDevice, RetireDevice
from coordinator.topics.lineages.commands import ImportBackbone
from coordinator.topics.rounds.prunings import Prunings
from coordinator.topics.stages.commands import OpenStage
from coordinator.trust.keys import note_reader, public_key
from export.scaling_backbone import scaling_backbone
from methods.registry import statistics_coordinator, statistics_device
from schemas.contributions import Contribution, PartKey
from schemas.envelope import Sender
from schemas.message import Message
from schemas.models import DesiredModel, ModelStatus
from schemas.presence import Birth, Capabilities
from schemas.reports import ClassResult, Evaluation
from schemas.values import BootId, DeviceId, FleetId
from simulator.virtual.clock import VirtualClock

FLEET = FleetId("orchard")
HOUR = 3600.0
_SERIES = 500
"""Entries of a group of messages."""
_ABLE = Capabilities(
    agent_version="0.1.0",
    python="3.11",
    machine="aarch64",
    features=frozenset({"numpy", "onnxruntime"}),
    memory_mib=512,
)


@dataclass
class Quarter:
    """Costs of a quarter of the time."""

    entries: int = 0
    models: int = 0
    groups: int = 0
    deciding: float = 0.0
    """Processor seconds of deciding and committing."""
    solving: list[float] = field(default_factory=list)
    """Processor seconds of the sum and the solve of each model; after a start all parts are added
    anew."""
    exporting: float = 0.0
    largest: Counter[str] = field(default_factory=Counter)
    """Bytes of the largest body, by kind of entry."""


class Fleet:
    """Cameras that answer at once, and the coordinator in `home`."""

    def __init__(self, home: Path, devices: int) -> None:
        self.clock = VirtualClock()
        self.names = [DeviceId(f"camera-{number:03}") for number in range(devices)]
        self.senders = {name: Sender(FLEET, name, BootId.fresh()) for name in self.names}
        self.parts = Counter[DeviceId]()
        self.quarter = Quarter()
        self._random = np.random.default_rng(1)
        self._tickets = 0
        self._home = home
        self._begin()

    def _begin(self) -> None:
        settings = CoordinatorSettings(
            fleet=FLEET,
            method=MethodSection(settings={"map_width": 16, "form": "exact"}),
            rollouts=RolloutRules(automatic_from=0),
        )
        write_new(self._home, settings)
        (self._home / "pixels.onnx").write_bytes(scaling_backbone(PREPROCESSING))
        (self._home / "pixels.json").write_text(PREPROCESSING.model_dump_json(), encoding="utf-8")
        files = (self._home / "pixels.onnx", self._home / "pixels.json")
        self.office = self._opened()
        backbone = prepare_backbone(self._home, *files)
        for name in self.names:
            self.command(AdmitDevice(device=name))
        self.command(ImportBackbone(backbone=backbone))
        self.command(OpenStage(class_names=CLASSES))
        self._lineage = backbone
        self.tell({name: [_birth()] for name in self.names})

    def _opened(self) -> BackOffice:
        office = open_office(self._home, self.clock.readings, lambda settings: settings.rules)
        office.engine.ledger.db.execute("PRAGMA synchronous=OFF")
        return office

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.office.engine.ledger.size

    def command(self, command: Command) -> None:
        """Carry a command out; raise `AssertionError` where it is refused."""
        self._tickets += 1
        for request in self.take([OperatorCommand(f"ticket-{self._tickets}", command)]):
            assert not isinstance(request, AnswerOperator) or request.done, request.text

    def tell(self, said: dict[DeviceId, list[Message]]) -> None:
        """Have devices say something."""
        happenings: list[Input] = [
            DeviceMessage(name, self.senders[name].seal(body, sent_ms=0))
            for name, bodies in said.items()
            for body in bodies
        ]
        for start in range(0, len(happenings), _SERIES):
            self.take(happenings[start : start + _SERIES])

    def give(self, devices: Sequence[tuple[DeviceId, int]]) -> None:
        """Have devices give a part of so many images each."""
        blobs, happenings = {}, []
        for name, images in devices:
            body, payload = self._part(name, images)
            blobs[body.payload] = payload
            happenings.append(PayloadStored(name, body))
        self.take(happenings, blobs)

    def _part(self, name: DeviceId, images: int) -> tuple[Contribution, bytes]:
        lineage = self._lineage
        assignment = statistics_coordinator(lineage.method).read_assignment(lineage.settings)
        largest = assignment.settings.largest
        size = (images, assignment.columns)
        features = self._random.integers(0, largest, size, endpoint=True)
        labels = [CLASSES[index % len(CLASSES)] for index in range(images)]
        made = statistics_device(lineage.method).finish(assignment, features, labels)
        body = Contribution(
            key=PartKey(stage=1, part=self.parts[name]),
            revision=0,
            payload_kind="statistics",
            method=lineage.method,
            lineage=lineage.frozen.digest,
            payload=made.digest,
            payload_bytes=len(made.payload),
            samples=made.samples,
        )
        self.parts[name] += 1
        return body, made.payload

    def look(self) -> None:
        """Let the rules see the time, until they find nothing to do."""
        while self.take([Tick()]):
            pass

    def take(
        self,
        happenings: Iterable[Input],
        blobs: dict | None = None,  # type: ignore[type-arg]
    ) -> list[Request]:
        """Commit a group, and all that follows from it; return its requests."""
        before, began = self.size, time.process_time()
        requests = self.office.engine.process(happenings, blobs)
        self.quarter.deciding += time.process_time() - began
        self.quarter.groups += 1
        self._note(before)
        for request in requests:
            self._carry_out(request)
        self._answer(requests)
        return requests

    def _carry_out(self, request: Request) -> None:
        if not isinstance(request, SolveHead | ExportHead):
            return
        began = time.process_time()
        finished = self.office.maker.make(request)
        used = time.process_time() - began
        if isinstance(request, SolveHead):
            self.quarter.solving.append(used)
            self.quarter.models += 1
        else:
            self.quarter.exporting += used
        self.take([finished.happening, Tick()], dict(finished.small_blobs))

    def _answer(self, requests: Iterable[Request]) -> None:
        """Have devices run what they are told to, and measure it."""
        said: dict[DeviceId, list[Message]] = {}
        for request in requests:
            if isinstance(request, SendToDevice) and isinstance(request.body, DesiredModel):
                said[request.device] = list(_runs(request.body))
        if said:
            self.tell(said)

    def _note(self, before: int) -> None:
        self.quarter.entries += self.size - before
        largest = self.quarter.largest
        for _, kind, body in self.office.engine.ledger.bodies(before):
            largest[kind] = max(largest[kind], len(body))

    def restart(self) -> None:
        """End the coordinator and start it again."""
        self.office.engine.close()
        self.office = self._opened()

    def replace(self, name: DeviceId) -> None:
        """Put other hardware in a device's place."""
        self.senders[name] = Sender(FLEET, name, BootId.fresh())
        self.tell({name: [_birth()]})

    def retire(self, name: DeviceId) -> None:
        """Take a device out of the fleet."""
        self.command(RetireDevice(device=name, reason="its mast fell"))
        self.names.remove(name)

    def restore_backup(self, folder: Path) -> None:
        """Mirror the ledger, make it again elsewhere of the mirror, and go on there."""
        mirror, home = folder / "mirror", folder / "restored"
        read_note, key = note_reader(self._home, FLEET), public_key(self._home)
        assert read_note is not None
        assert key is not None
        self.office.engine.close()
        with ledger_of(self._home) as ledger:
            for _ in Mirror(mirror, read_note, Prunings).steps(
                ledger, Blobs(ledger, self.office.store)
            ):
                pass
        home.mkdir()
        shutil.copytree(self._home / "keys", home / "keys")
        shutil.copy(self._home / FILE_NAME, home / FILE_NAME)
        restore(mirror, home, LedgerOwner(FLEET, key, Prunings()), TABLES)
        self._home = home
        self.office = self._opened()

    def close(self) -> None:
        """Close the ledger."""
        self.office.engine.close()


def _birth() -> Birth:
    return Birth(installation=BootId.fresh(), capabilities=_ABLE)


def _runs(desired: DesiredModel) -> Iterator[Message]:
    manifest = desired.manifest.digest
    yield ModelStatus(version=desired.version, manifest=manifest, state="active")
    yield Evaluation(
        model_version=desired.version,
        manifest=manifest,
        results={name: ClassResult(correct=3, total=4) for name in CLASSES},
        provider="CPUExecutionProvider",
        seconds=1.0,
        bytes_up=0,
        bytes_down=0,
    )

"""A fleet of cameras and its coordinator in simulated time: real core, ledger, sums and exports."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.speed.contribution_rate.load import CLASSES, PREPROCESSING
from fleetledger.coordinator.assembly import LocalCoordinator, open_local
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.inputs import (
    DeviceMessage,
    Input,
    OperatorCommand,
    PayloadOutcome,
    Tick,
)
from fleetledger.coordinator.core.requests import AnswerOperator, Request, SendToDevice
from fleetledger.coordinator.core.state_fold import folded, keep_snapshot, snapshots_of
from fleetledger.coordinator.core.work import ExportHead, SolveHead
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.keys import note_reader, public_key
from fleetledger.coordinator.ledger.mirror import Mirror
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.restore import LedgerOwner, restore
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.settings import (
    CoordinatorSettings,
    MethodSection,
    write_new,
)
from fleetledger.coordinator.topics.contributions.commands import SettleEarlier
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, RetireDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.methods.registry import statistics_coordinator, statistics_device
from fleetledger.methods.statistics.sides import MadeContribution
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.presence import Birth, Capabilities, Welcome
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from fleetledger.simulator.virtual.clock import VirtualClock

FLEET = FleetId("orchard")
HOUR = 3600.0
_SERIES = 500
"""Entries of a group of messages."""
_PAYLOADS = 400
"""Different payloads of one size; more than a camera gives in a year."""
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
    keeping: float = 0.0
    """Processor seconds of keeping the state beside the ledger."""
    largest: Counter[str] = field(default_factory=Counter)
    """Bytes of the largest body, by kind of entry."""


class Fleet:
    """Cameras that answer at once, and the coordinator in `home`."""

    def __init__(self, home: Path, devices: int) -> None:
        self.clock = VirtualClock()
        self.names = [DeviceId(f"camera-{number:03}") for number in range(devices)]
        self.senders = {name: Sender(FLEET, name, BootId.fresh()) for name in self.names}
        self.births = {name: _birth() for name in self.names}
        self.parts = Counter[DeviceId]()
        self.payload_bytes = 0
        """Of all parts; equal ones lie in the ledger once."""
        self.starts: list[float] = []
        """Processor seconds of each start, up to the welcome of the last camera."""
        self.greeting_bytes: list[int] = []
        """Largest greeting of a camera after each start."""
        self.quarter = Quarter()
        self._random = np.random.default_rng(1)
        self._tickets = 0
        self._home = home
        self._kept_size = self._greeted = 0
        self._since_backup: list[tuple[DeviceId, Contribution, bytes]] = []
        self._runs: dict[DeviceId, tuple[int, Digest]] = {}
        self._comparisons = Counter[DeviceId]()
        self._made: dict[tuple[int, int], MadeContribution] = {}
        self._begin()

    def _begin(self) -> None:
        settings = CoordinatorSettings(
            fleet=FLEET,
            method=MethodSection(settings={"map_width": 16, "form": "exact"}),
        )
        write_new(self._home, settings)
        (self._home / "pixels.onnx").write_bytes(scaling_backbone(PREPROCESSING))
        (self._home / "pixels.json").write_text(PREPROCESSING.model_dump_json(), encoding="utf-8")
        files = (self._home / "pixels.onnx", self._home / "pixels.json")
        self.local = self._opened()
        backbone = prepare_backbone(self._home, *files, trusted=True)
        for name in self.names:
            self.command(AdmitDevice(device=name))
        self.command(ImportBackbone(backbone=backbone))
        self.command(OpenStage(class_names=CLASSES))
        self._lineage = backbone
        self.reconnect()

    def _opened(self) -> LocalCoordinator:
        local = open_local(self._home, self.clock.readings, lambda settings: settings.rules)
        local.engine.ledger.db.execute("PRAGMA synchronous=OFF")
        return local

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.local.engine.ledger.size

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
        parts = [(name, *self._part(name, images)) for name, images in devices]
        self.payload_bytes += sum(len(payload) for *_, payload in parts)
        self._give(parts)

    def _give(self, parts: Sequence[tuple[DeviceId, Contribution, bytes]]) -> None:
        self._since_backup += parts
        blobs = {body.payload: payload for _, body, payload in parts}
        self.take([PayloadOutcome(name, body) for name, body, _ in parts], blobs)

    def _part(self, name: DeviceId, images: int) -> tuple[Contribution, bytes]:
        number = self.parts[name]
        made = self._statistics(images, (number + 37 * int(name.split("-")[1])) % _PAYLOADS)
        body = Contribution(
            key=PartKey(stage=1, part=number),
            revision=0,
            payload_kind="statistics",
            method=self._lineage.method,
            lineage=self._lineage.frozen.digest,
            payload=made.digest,
            payload_bytes=len(made.payload),
            samples=made.samples,
        )
        self.parts[name] += 1
        return body, made.payload

    def _statistics(self, images: int, number: int) -> MadeContribution:
        """Return the statistics of so many random samples, the same for the same number."""
        if (images, number) not in self._made:
            lineage = self._lineage
            assignment = statistics_coordinator(lineage.method).read_assignment(lineage.settings)
            size, largest = (images, assignment.columns), assignment.settings.largest
            random = np.random.default_rng((images, number))
            features = random.integers(0, largest, size, endpoint=True)
            labels = [CLASSES[index % len(CLASSES)] for index in range(images)]
            made = statistics_device(lineage.method).finish(assignment, features, labels)
            self._made[images, number] = made
        return self._made[images, number]

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
        requests = self.local.engine.process(happenings, blobs)
        self.quarter.deciding += time.process_time() - began
        self.quarter.groups += 1
        self._note(before)
        for request in requests:
            self._carry_out(request)
            if isinstance(request, SendToDevice) and isinstance(request.body, Welcome):
                self._greeted = max(self._greeted, len(request.body.model_dump_json()))
        self._answer(requests)
        return requests

    def _carry_out(self, request: Request) -> None:
        if not isinstance(request, SolveHead | ExportHead):
            return
        began = time.process_time()
        finished = self.local.maker.make(request)
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
                said[request.device] = list(self._switched(request.device, request.body))
        if said:
            self.tell(said)

    def _switched(self, name: DeviceId, desired: DesiredModel) -> Iterator[Message]:
        """Yield what a device says of a model that it is told to run, unless it runs already."""
        version, manifest = desired.version, desired.manifest.digest
        former = self._runs.get(name)
        if former == (version, manifest):
            return
        self._runs[name] = version, manifest
        yield ModelStatus(
            version=version,
            manifest=manifest,
            state="active",
            previous_version=None if former is None else former[0],
        )
        if former is not None and desired.rollout is not None and desired.group is not None:
            yield ModelComparison(
                number=self._comparisons[name],
                rollout=desired.rollout,
                group=desired.group,
                mode="run",
                candidate=manifest,
                candidate_version=version,
                active=former[1],
                active_version=former[0],
                classes={label: Pairs(both=3, neither=1) for label in CLASSES},
            )
            self._comparisons[name] += 1
        if desired.settle_seconds is not None:
            yield ModelStatus(version=version, manifest=manifest, state="settled")
        yield Evaluation(
            version=version,
            manifest=manifest,
            results={label: ClassResult(correct=3, total=4) for label in CLASSES},
            provider="CPUExecutionProvider",
            seconds=1.0,
            bytes_up=0,
            bytes_down=0,
        )

    def _note(self, before: int) -> None:
        self.quarter.entries += self.size - before
        largest = self.quarter.largest
        for _, _, kind, _, _, body, *_ in self.local.engine.ledger.rows(before):
            largest[kind] = max(largest[kind], len(body.encode()))

    def keep_state(self) -> None:
        """Keep the state beside the ledger, as often as the program's settings say."""
        engine = self.local.engine
        if engine.ledger.size - self._kept_size >= self.local.settings.ledger.snapshot_every:
            began = time.process_time()
            keep_snapshot(engine.ledger, folded(engine.ledger).state)
            self.quarter.keeping += time.process_time() - began
            self._kept_size = engine.ledger.size

    def reconnect(self) -> None:
        """Have all connections end and come again, as where a password of the broker changes."""
        self.tell({name: [self.births[name]] for name in self.names})

    def restart(self) -> None:
        """End the coordinator and start it again."""
        self.local.engine.close()
        self._start()

    def _start(self) -> None:
        began = time.process_time()
        self.local = self._opened()
        kept = snapshots_of(self.local.engine.ledger).files()
        self._kept_size, self._greeted = int(kept[0].stem) if kept else 0, 0
        self.reconnect()
        self.starts.append(time.process_time() - began)
        self.greeting_bytes.append(self._greeted)

    def replace(self, name: DeviceId) -> None:
        """Put other hardware in a device's place."""
        self.senders[name] = Sender(FLEET, name, BootId.fresh())
        self.births[name] = _birth()
        self._runs.pop(name, None)
        self.tell({name: [self.births[name]]})

    def settle(self, name: DeviceId, *, kept: bool) -> None:
        """Say whether what a replaced device gave stays in the sum."""
        self.command(SettleEarlier(device=name, kept=kept))

    def retire(self, name: DeviceId) -> None:
        """Take a device out of the fleet."""
        self.command(RetireDevice(device=name, reason="its mast fell"))
        self.names.remove(name)

    def back_up(self, mirror: Path) -> None:
        """Mirror the ledger."""
        read_note = note_reader(self._home, FLEET)
        assert read_note is not None
        with ledger_of(self._home) as ledger:
            blobs = Blobs(ledger, self.local.store)
            for _ in Mirror(mirror, read_note, Prunings).steps(ledger, blobs):
                pass
        self._since_backup = []

    def restore_backup(self, mirror: Path, home: Path) -> None:
        """Make the ledger again elsewhere of its mirror and go on there.

        Cameras give again what they gave since the backup.
        """
        key = public_key(self._home)
        assert key is not None
        self.local.engine.close()
        home.mkdir()
        shutil.copytree(self._home / "keys", home / "keys")
        shutil.copy(self._home / FILE_NAME, home / FILE_NAME)
        restore(mirror, home, LedgerOwner(FLEET, key, Prunings()))
        self._home = home
        lost, self._since_backup = self._since_backup, []
        self._start()
        self._give(lost)

    def close(self) -> None:
        """Close the ledger."""
        self.local.engine.close()


def _birth() -> Birth:
    return Birth(installation=BootId.fresh(), capabilities=_ABLE)

"""A coordinator's home with a long history, written through the ledger's own writer."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from benchmarks.speed.contribution_rate.load import LONG_SECONDS, PREPROCESSING
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import ModelRules, StageRules
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    MethodSection,
    write_new,
)
from fleetledger.coordinator.topics.classes.entries import ClassNamed
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted, DeviceBorn
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.models.entries import (
    DeviceEvaluated,
    DeviceModelStatus,
    ModelDesired,
    ModelExported,
    ModelSolved,
)
from fleetledger.coordinator.topics.stages.entries import StageClosed, StageOpened
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.contributions import Part, PartKey
from fleetledger.schemas.models import ModelStatus, Parity
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId

FLEET = FleetId("rate")
"""That of the contributions of `benchmarks.speed.contribution_rate`."""
CLASSES_PER_STAGE = 5
_MEASURED = 20
"""Classes of which a device has held-out images, the newest ones."""
_GROUP = 1000
_STEP_NS = 100_000_000
_ABLE = Capabilities(
    agent_version="0.1.0",
    python="3.11",
    machine="aarch64",
    features=frozenset({"numpy", "onnxruntime"}),
    provider="CPUExecutionProvider",
    memory_mib=4096,
)
_MADE = "made.json"


@dataclass(frozen=True)
class History:
    """How much has happened."""

    devices: int = 1000
    entries: int = 100_000
    stages: int = 4
    """The last one is open; a model was made of each one before."""
    senders: int = 50
    """Devices that have not run yet, and send while it is measured; the first ones."""
    map_width: int = 40
    seed: int = 1

    @property
    def names(self) -> list[DeviceId]:
        """The devices' ids."""
        return [DeviceId(f"device-{number:03}") for number in range(self.devices)]

    @property
    def most_contributions(self) -> int:
        """As many as the method must take."""
        return 4 * self.entries


def home_with(history: History, folder: Path) -> Path:
    """Return a home in `folder` with this history; make it if none has."""
    name = "-".join(str(value) for value in asdict(history).values())
    home = folder / f"fleet-view-{name}"
    if not (home / _MADE).exists():
        make_home(history, home)
        (home / _MADE).touch()
    return home


def make_home(history: History, home: Path) -> None:
    """Write settings, frozen model and ledger."""
    write_settings(history, home)
    (home / "pixels.onnx").write_bytes(scaling_backbone(PREPROCESSING))
    (home / "pixels.json").write_text(PREPROCESSING.model_dump_json(), encoding="utf-8")
    backbone = prepare_backbone(home, home / "pixels.onnx", home / "pixels.json", trusted=True)
    told = Told(history, backbone)
    drafts = told.drafts()
    with Ledger.open(ledger_path(home)) as ledger:
        while group := list(islice(drafts, _GROUP)):
            ledger.append(group, told.blobs)
            told.blobs = {}


def write_settings(
    history: History, home: Path, broker: CoordinatorBrokerSettings | None = None
) -> None:
    """Write the settings of a coordinator at a broker, over those that are there."""
    (home / "coordinator.toml").unlink(missing_ok=True)
    method = {
        "map_width": history.map_width,
        "form": "exact",
        "max_contributions": history.most_contributions,
    }
    settings = CoordinatorSettings(
        fleet=FLEET,
        broker=broker or CoordinatorBrokerSettings(),
        method=MethodSection(settings=method),
        stages=StageRules(quiet_seconds=LONG_SECONDS, deadline_seconds=1000 * LONG_SECONDS),
        models=ModelRules(automatic=False, solve_every_seconds=LONG_SECONDS),
    )
    write_new(home, settings)


def lineage_of(home: Path) -> BackboneImported:
    """Return the frozen model of a home."""
    with ledger_of(home) as ledger:
        (entry,) = ledger.find(BackboneImported)
    return BackboneImported.model_validate(entry.body)


class Told:
    """The history, entry by entry."""

    def __init__(self, history: History, backbone: BackboneImported) -> None:
        self._history, self._backbone = history, backbone
        self._random = random.Random(history.seed)
        self._now_ns = time.time_ns() - (history.entries + 1000) * _STEP_NS
        self._size = 0
        self._given: list[int] = []
        self._known: list[ClassName] = []
        self.blobs: dict[Digest, bytes] = {}
        """What the coordinator looks up when it begins; to be stored with the entries."""

    def drafts(self) -> Iterator[EntryDraft]:
        """Yield all of it; the blobs that its next entries name are in `blobs`."""
        names = self._history.names
        born = names[self._history.senders :]
        yield self._draft(self._backbone)
        for name in names:
            yield self._draft(DeviceAdmitted(device=name))
        for name in born:
            yield self._born(name)
        for stage in range(1, self._history.stages + 1):
            yield from self._stage(stage, born)

    def _born(self, device: DeviceId) -> EntryDraft:
        run = BootId(f"{self._size:016x}")
        return self._draft(DeviceBorn(boot=run, installation=run, capabilities=_ABLE), device)

    def _opened(self, stage: int, fresh: Sequence[ClassName]) -> Iterator[EntryDraft]:
        for index, name in enumerate(fresh, start=len(self._known)):
            yield self._draft(ClassNamed(name=name, index=index))
        self._known += fresh
        yield self._draft(StageOpened(stage=stage, class_names=tuple(fresh)))

    def _stage(self, stage: int, born: Sequence[DeviceId]) -> Iterator[EntryDraft]:
        first = (stage - 1) * CLASSES_PER_STAGE
        fresh = [ClassName(f"class-{first + number}") for number in range(CLASSES_PER_STAGE)]
        yield from self._opened(stage, fresh)
        left = self._history.stages - stage + 1
        per_model = 2 * len(born) + CLASSES_PER_STAGE + 5
        room = self._history.entries - self._size - (left - 1) * per_model
        for number in range(room // left if left > 1 else room):
            device = born[number % len(born)]
            self._given.append(self._size)
            yield self._draft(self._contribution(stage, number // len(born), fresh), device)
        if left > 1:
            count = len(born)
            yield self._draft(
                StageClosed(stage=stage, reason="quorum", answered=count, expected=count)
            )
            yield from self._model(stage, born)

    def _contribution(
        self, stage: int, part: int, fresh: Sequence[ClassName]
    ) -> ContributionAccepted:
        seen = self._random.sample(list(fresh), min(3, len(fresh)))
        payload = Digest(f"{self._random.getrandbits(256):064x}")
        given = Part(
            key=PartKey(stage=stage, part=part),
            revision=0,
            payload_kind="statistics",
            payload=payload,
            payload_bytes=3000,
            samples={name: self._random.randint(1, 40) for name in seen},
            method=self._backbone.method,
            lineage=self._backbone.frozen.digest,
        )
        return ContributionAccepted(part=given)

    def _model(self, version: int, born: Sequence[DeviceId]) -> Iterator[EntryDraft]:
        names, files = tuple(self._known), self._backbone
        yield self._draft(
            ModelSolved(
                version=version,
                lineage=files.frozen.digest,
                ledger_size=self._size,
                contributions=len(self._given),
                class_names=names,
                aggregate=Digest.of(f"sum {version}".encode()),
                head=Digest.of(f"head {version}".encode()),
                method=files.method,
                fingerprint={"cpu": "none: this model was never made"},
                seconds=1.0,
            )
        )
        manifest = self._offer(f"manifest {version}")
        parity = Parity(max_absolute_difference=1e-6, agreement=1, samples=8, runtime="none")
        yield self._draft(
            ModelExported(
                version=version,
                manifest=manifest,
                files=(self._offer(f"head {version}"), files.frozen, files.golden),
                parity=parity,
            )
        )
        yield self._draft(ModelDesired(version=version, reason="operator"))
        for device in born:
            status = ModelStatus(version=version, manifest=manifest.digest, state="active")
            yield self._draft(DeviceModelStatus(status=status), device)
            yield self._draft(self._evaluation(version, manifest.digest, names), device)

    def _evaluation(
        self, version: int, manifest: Digest, names: Sequence[ClassName]
    ) -> DeviceEvaluated:
        results = {
            name: ClassResult(correct=self._random.randint(14, 20), total=20)
            for name in names[-_MEASURED:]
        }
        evaluation = Evaluation(
            version=version,
            manifest=manifest,
            results=results,
            provider="CPUExecutionProvider",
            seconds=0.5,
            bytes_up=100_000,
            bytes_down=2_000_000,
        )
        return DeviceEvaluated(evaluation=evaluation)

    def _draft(self, body: EntryBody, device: DeviceId | None = None) -> EntryDraft:
        self._size += 1
        self._now_ns += _STEP_NS
        values = body.model_dump(mode="json")
        actor = device or "operator"
        return EntryDraft(body.kind, actor, values, device, body.blobs, self._now_ns, plain=True)

    def _offer(self, text: str) -> Offer:
        content = text.encode()
        digest = Digest.of(content)
        self.blobs[digest] = content
        return Offer(digest=digest, size=len(content), list_digest=digest)

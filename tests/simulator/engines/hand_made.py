"""Hand-made ledger entries of a fleet of two devices that learns two classes a stage."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
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
from fleetledger.schemas.contributions import Part, PartKey
from fleetledger.schemas.models import ModelStatus, Parity, Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest

LINEAGE = Digest.of(b"frozen")
DEVICES = (DeviceId("device-1"), DeviceId("device-2"))
IMAGES, QUESTIONS = 5, 9
"""Of each class on each device, to learn from and to be asked about."""
CAPABILITIES = Capabilities(
    agent_version="1", python="3.11", machine="x86_64", features=frozenset(), memory_mib=1024
)
PREPROCESSING = Preprocessing(
    mode="L", size=(8, 8), mean=(0.0,), deviation=(1.0,), input_name="image"
)


def offer(text: str) -> Offer:
    return Offer(digest=Digest.of(text.encode()), size=5000, list_digest=Digest.of(b"list"))


def classes_of(stage: int) -> tuple[ClassName, ...]:
    return tuple(ClassName(str(digit)) for digit in (2 * stage - 2, 2 * stage - 1))


def questions_of(stage: int) -> dict[ClassName, int]:
    return {name: QUESTIONS for number in range(stage) for name in classes_of(number + 1)}


@dataclass
class HandMadeLedger:
    """Writes plausible entries one after another and keeps the state of them."""

    state: State = field(default_factory=State)
    recorded: list[tuple[EntryBody, DeviceId | None, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.reader = Ledger.open(Path(self._folder.name, "ledger", "ledger.db"))

    def add(self, body: EntryBody, device: DeviceId | None = None) -> int:
        index = len(self.recorded)
        self.recorded.append((body, device, index * 10**9))
        self.state.apply(*self.recorded[-1])
        self.write(body, device, self.recorded[-1][2])
        return index

    def write(
        self, body: EntryBody, device: DeviceId | None = None, time_ns: int | None = None
    ) -> None:
        """Write an entry that is no part of the state."""
        values = body.model_dump(mode="json")
        self.reader.append([EntryDraft(body.kind, "test", values, device, (), time_ns)])

    def begin(self) -> None:
        for device in DEVICES:
            self.add(DeviceAdmitted(device=device))
        self.add(
            BackboneImported(
                name="digits",
                frozen=offer("frozen"),
                golden=offer("golden"),
                preprocessing=PREPROCESSING,
                backbone_width=64,
                feature_width=64,
                method="stsa",
                settings={},
            )
        )
        for device in DEVICES:
            self.bear(device)

    def bear(self, device: DeviceId) -> None:
        boot = BootId.fresh()
        self.add(DeviceBorn(boot=boot, installation=boot, capabilities=CAPABILITIES), device)

    def open(self, stage: int) -> None:
        names = classes_of(stage)
        for name in names:
            index = self.state.classes.next_index
            self.add(ClassNamed(name=name, index=index))
        self.add(StageOpened(stage=stage, class_names=names))

    def contribute(self, stage: int, device: DeviceId, samples: dict | None = None) -> int:
        counts = dict.fromkeys(classes_of(stage), IMAGES)
        return self.add(
            ContributionAccepted(
                part=Part(
                    key=PartKey(stage=stage, part=len(self.recorded)),
                    revision=0,
                    payload_kind="statistics",
                    payload=Digest.of(str(len(self.recorded)).encode()),
                    payload_bytes=1000 * stage,
                    samples=counts if samples is None else samples,
                    method="stsa",
                    lineage=LINEAGE,
                ),
            ),
            device,
        )

    def close(self, stage: int) -> None:
        self.add(StageClosed(stage=stage, reason="quorum", answered=2, expected=2))

    def solve(self, version: int, ledger_size: int | None = None) -> None:
        state = self.state
        self.add(
            ModelSolved(
                version=version,
                lineage=LINEAGE,
                ledger_size=state.size if ledger_size is None else ledger_size,
                contributions=state.contributions.sum.parts,
                class_names=state.classes.names,
                aggregate=Digest.of(f"sum {version}".encode()),
                head=Digest.of(f"head {version}".encode()),
                method="stsa",
                fingerprint={"machine": "x86_64"},
                seconds=0.25,
            )
        )
        parity = Parity(max_absolute_difference=0.0, agreement=1.0, samples=1, runtime="none")
        self.add(
            ModelExported(
                version=version, manifest=offer(f"manifest {version}"), files=(), parity=parity
            )
        )

    def desire(self, version: int) -> None:
        self.add(ModelDesired(version=version, reason="automatic"))

    def report(self, version: int, device: DeviceId, state: str = "active") -> None:
        self.add(
            DeviceModelStatus(
                status=ModelStatus(
                    version=version, manifest=Digest.of(b"m"), state=state, reason="because"
                )
            ),
            device,
        )

    def evaluate(self, stage: int, version: int, device: DeviceId, wrong: int = 0) -> None:
        """Report right answers: all but `wrong` of the first class."""
        questions = questions_of(stage)
        first = next(iter(questions))
        results = {
            name: ClassResult(correct=total - (wrong if name == first else 0), total=total)
            for name, total in questions.items()
        }
        self.add(
            DeviceEvaluated(
                evaluation=Evaluation(
                    version=version,
                    manifest=Digest.of(b"m"),
                    results=results,
                    provider="CPUExecutionProvider",
                    seconds=0.1,
                    bytes_up=10_000 * stage,
                    bytes_down=1_000 * stage,
                )
            ),
            device,
        )

    def learn(self, stage: int, wrong: int = 0) -> None:
        """Add everything that a stage takes; the model's version is the stage's number."""
        self.open(stage)
        for device in DEVICES:
            self.contribute(stage, device)
        self.close(stage)
        self.solve(stage)
        self.desire(stage)
        for device in DEVICES:
            self.report(stage, device)
            self.evaluate(stage, stage, device, wrong)

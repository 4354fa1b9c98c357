"""Ledgers of rollouts that a test makes up: entries one after the other, at times of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus, ModelSolved
from fleetledger.coordinator.topics.rollouts.entries import (
    GroupOpened,
    ModelCompared,
    RolloutMeasured,
    RolloutPlanned,
    RolloutStarted,
)
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope
from fleetledger.coordinator.topics.rollouts.verdict import judge
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.rollouts import (
    WHOLE,
    EntropyCounts,
    Mode,
    ModelComparison,
    ModelCost,
    Pairs,
    place_of,
)
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import BACKBONE

BEGIN_NS = 1_763_629_080 * 10**9
"""20 November 2025, 08:58 UTC."""
SECOND = 10**9
OLD = tuple(map(ClassName, ("apple", "cherry", "grape", "kiwi", "lemon", "orange", "plum")))
NEW = tuple(map(ClassName, ("fig", "lychee")))
SALT = "salt-of-a-tale"


@dataclass
class Tale:
    """A fleet, and what becomes of a rollout in it."""

    devices: tuple[DeviceId, ...]
    now_ns: int = BEGIN_NS
    entries: list[tuple[EntryBody, DeviceId | None, int, str]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    rollout: int = 7
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    evidence: Evidence = field(default_factory=Evidence)

    def say(self, body: EntryBody, device: DeviceId | None = None, actor: str = "core") -> int:
        """Write an entry a second later; return its index."""
        self.now_ns += SECOND
        self.entries.append((body, device, self.now_ns, actor))
        return len(self.entries) - 1

    def begin(self) -> None:
        """Admit everybody; two models are there."""
        self.say(BACKBONE)
        for device in self.devices:
            self.say(DeviceAdmitted(device=device), actor="operator")
        for version, classes in ((11, OLD), (12, (*OLD, *NEW))):
            self.say(_solved(version, classes))

    def planned(self, plan: RolloutPlan | None = None, actor: str = "operator:ana") -> None:
        """Plan a rollout of model 12 and start it."""
        self.plan = plan or self.plan
        self.evidence = Evidence(self.plan.gates)
        body = RolloutPlanned(
            rollout=self.rollout,
            version=12,
            former=11,
            classes=len(OLD),
            salt=SALT,
            plan=self.plan,
        )
        self.say(body, actor=actor)
        self.say(RolloutStarted(rollout=self.rollout), actor=actor)

    def opened(self, group: int, mode: Mode) -> list[DeviceId]:
        """Open a group; return who is in it or in one before."""
        below = self.below(group)
        self.say(GroupOpened(rollout=self.rollout, group=group, mode=mode, below=below))
        return self.members(group)

    def below(self, group: int) -> int:
        """Return the bound of a group's places."""
        size = self.plan.groups[group - 1]
        places = sorted(place_of(SALT, device) for device in self.devices)
        if isinstance(size, int):
            return places[size] if size < len(places) else WHOLE
        return round(size * WHOLE)

    def members(self, group: int) -> list[DeviceId]:
        """Return who is in a group or in one before."""
        below = self.below(group)
        return [device for device in self.devices if place_of(SALT, device) < below]

    def compared(
        self,
        device: DeviceId,
        group: int,
        mode: Mode,
        lost: Mapping[ClassName, float] | None = None,
    ) -> int:
        """Have a device report; `lost` is how often the candidate forgets an image of a class."""
        classes = {}
        for name in (*OLD, *NEW):
            images = self.chance.randint(12, 24)
            wrong = (lost or {}).get(name, 0.01)
            worse = sum(self.chance.random() < wrong for _ in range(images))
            better = int(self.chance.random() < 0.15)
            if name in NEW:
                classes[name] = Pairs(only_candidate=images - 2, neither=2)
                continue
            both = images - worse - better - 1
            classes[name] = Pairs(both=both, only_active=worse, only_candidate=better, neither=1)
        comparison = ModelComparison(
            number=0,
            rollout=self.rollout,
            group=group,
            mode=mode,
            candidate=Digest.of(b"12"),
            candidate_version=12,
            active=Digest.of(b"11"),
            active_version=11,
            classes=classes,
            new_classes=NEW,
            entropy_active=EntropyCounts(images=40, nats=40 << 13, bins=(10, 20, 10)),
            entropy_candidate=EntropyCounts(images=40, nats=40 << 13, bins=(12, 18, 10)),
            agreed=37,
            unlabelled=40,
            cost_active=ModelCost(latency=_latency(100), resident_bytes=200 << 20),
            cost_candidate=ModelCost(latency=_latency(100), resident_bytes=202 << 20),
        )
        index = self.say(ModelCompared(comparison=comparison), device)
        self.evidence.compare(index, device, comparison)
        return index

    def runs(self, device: DeviceId, state: str = "active", reason: str = "") -> None:
        """Have a device say what became of model 12."""
        values = {"version": 12, "manifest": Digest.of(b"12"), "state": state, "reason": reason}
        throttled = {"throttled": 0} if state == "settled" else {}
        body = DeviceModelStatus.model_validate({"status": values | throttled})
        index = self.say(body, device)
        if state == "settled":
            self.evidence.settle(index, device, 0)
        elif state != "active":
            self.evidence.fail(index, device)

    def runs_again(self, device: DeviceId) -> None:
        """Have a device say that it is back at model 11."""
        status = ModelStatus(version=11, manifest=Digest.of(b"11"), state="active")
        self.say(DeviceModelStatus(status=status), device)

    def measured(self, group: int, mode: Mode) -> Outcome:
        """Write the verdict on what came so far; return it."""
        members = self.members(group)
        scope = Scope(group=group, mode=mode, members=len(members), classes=len(OLD))
        found = judge(self.plan.gates, self.evidence, scope)
        body = RolloutMeasured(
            rollout=self.rollout,
            group=group,
            mode=mode,
            outcome=found.outcome,
            members=len(members),
            gates=found.gates,
            entries=tuple(self.evidence.entries),
            reason=found.reason,
        )
        self.say(body)
        return found.outcome

    def write(self, home: Path) -> Path:
        """Write the ledger into a home."""
        with Ledger.open(ledger_path(home)) as ledger:
            ledger.append(
                [
                    EntryDraft(body.kind, actor, body.model_dump(mode="json"), device, (), time_ns)
                    for body, device, time_ns, actor in self.entries
                ]
            )
        return home


def fleet(count: int) -> tuple[DeviceId, ...]:
    """Return names of devices."""
    trees = ("alder", "birch", "cedar", "elm", "fir")
    return tuple(DeviceId(f"{trees[n % 5]}-{n // 5 + 1:02}") for n in range(count))


def _solved(version: int, classes: tuple[ClassName, ...]) -> ModelSolved:
    return ModelSolved(
        version=version,
        lineage=Digest.of(b"lineage"),
        ledger_size=0,
        contributions=0,
        class_names=classes,
        aggregate=Digest.of(b"sum"),
        head=Digest.of(b"head"),
        method="stsa",
        fingerprint={},
        seconds=0.1,
    )


def _latency(middle: int) -> tuple[int, ...]:
    """Return a histogram of which most lies in one bin."""
    return (*[0] * (middle - 1), 5, 90, 5)

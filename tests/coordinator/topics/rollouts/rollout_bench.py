"""A fleet on a bench, with a model that every device runs, and answers to what a rollout offers."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import COORDINATOR, EntryBody, NewEntry
from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelSolved
from fleetledger.coordinator.topics.rollouts.commands import PlanRollout
from fleetledger.coordinator.topics.rollouts.plan import GatePlan, RolloutPlan
from fleetledger.coordinator.topics.rollouts.state import Rollout
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.presence import Death
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import BACKBONE, Bench, exported, names

SMALL = GatePlan(min_devices=1, min_images=1, retention=2.0, no_class_lost=1.1)
"""Two devices show a loss: fleets on a bench are small."""
GOOD = Pairs(both=20)
BAD = Pairs(both=4, only_active=16)


def plan(**changes: object) -> RolloutPlan:
    """One device, half, all; no shadow, a minute of soaking."""
    values = {
        "groups": (1, 0.5, 1.0),
        "shadow": "off",
        "soak_seconds": 60.0,
        "reach_seconds": 100.0,
        "settle_seconds": 10.0,
        "gates": SMALL,
        "retries": 0,
    }
    return RolloutPlan.model_validate(values | changes)


@dataclass
class RolloutBench(Bench):
    """Devices answer when they are told to, as agents would."""

    told: dict[DeviceId, DesiredModel] = field(default_factory=dict)
    """What each device was told last."""
    numbers: dict[str, int] = field(default_factory=dict)
    ran: dict[int, set[str]] = field(default_factory=dict)
    """Devices that were ever told to run a version."""

    def fleet(self, devices: int, models: int = 2) -> list[str]:
        """Admit devices that are there and run model 1; there are others that nobody runs."""
        found = [f"dev-{number:04}" for number in range(devices)]
        self.command(ImportBackbone(backbone=BACKBONE))
        for device in found:
            self.command(AdmitDevice(device=DeviceId(device)))
            self.born(
                device,
            )
        for version in range(1, models + 1):
            self.make(version)
            if version == 1:
                self.record(ModelDesired(version=1, reason="first"))
                for device in found:
                    self.says(device, "active", version=1)
        return found

    def make(self, version: int) -> None:
        """Solve and export a model that does not go out by itself."""
        solved = ModelSolved(
            version=version,
            lineage=BACKBONE.frozen.digest,
            ledger_size=self.core.state.size,
            contributions=version,
            class_names=names("cat", "dog"),
            aggregate=Digest.of(b"sum"),
            head=Digest.of(b"head"),
            method="stsa",
            fingerprint={},
            seconds=0.1,
        )
        self.record(solved)
        self.record(exported(version))

    def record(self, body: EntryBody) -> None:
        """Put an entry into the ledger, whoever decided it."""
        self._note(list(self.core.apply(NewEntry(body, COORDINATOR), self.now_ns)))
        self.entries.append((body, None, self.now_ns))

    def handle(self, happening: object) -> list[Request]:
        requests = super().handle(happening)  # type: ignore[arg-type]
        self._note(requests)
        return requests

    def _note(self, requests: list[Request]) -> None:
        for request in requests:
            body = getattr(request, "body", None)
            if isinstance(body, DesiredModel):
                self.told[request.device] = body  # type: ignore[union-attr]
                if body.mode is None:
                    self.ran.setdefault(body.version, set()).add(request.device)  # type: ignore[union-attr]

    def begin_rollout(self, version: int = 2, **changes: object) -> Rollout:
        """Plan and start a rollout, and let it open its first group."""
        answer = self.command(PlanRollout(version=version, plan=plan(**changes), start=True))
        assert answer.done, answer.text
        self.settle()
        return self.rollout

    def settle(self) -> None:
        """Let the core look until nothing more follows."""
        size = -1
        while size != self.core.state.size:
            size = self.core.state.size
            self.wait(0)

    @property
    def rollout(self) -> Rollout:
        """The newest one."""
        return self.core.state.rollouts.by_number[max(self.core.state.rollouts.by_number)]

    @property
    def kinds(self) -> list[str]:
        """What the newest entries about rollouts say."""
        return [body.kind for body, *_ in self.entries if body.kind.startswith("rollout.")]

    def offered(self, group: int | None = None, version: int = 2) -> list[str]:
        """Devices that were told last to run or to compare a version, in one group if told."""
        return sorted(
            device
            for device, told in self.told.items()
            if told.version == version and group in (None, told.group)
        )

    def says(self, device: str, state: str, version: int = 2, **changes: object) -> None:
        """Let a device say what became of a version."""
        values = {
            "version": version,
            "manifest": exported(version).manifest.digest,
            "state": state,
            "previous_version": 1 if version > 1 else None,
        }
        self.message(device, ModelStatus.model_validate(values | changes))

    def compares(self, device: str, pairs: Pairs = GOOD, of: str = "cat") -> None:
        """Let a device send a comparison of what it was offered."""
        told = self.told[DeviceId(device)]
        number = self.numbers[device] = self.numbers.get(device, -1) + 1
        body = ModelComparison(
            number=number,
            rollout=told.rollout or 1,
            group=told.group or 1,
            mode=told.mode or "run",
            candidate=told.manifest.digest,
            candidate_version=told.version,
            active=exported(1).manifest.digest,
            active_version=1,
            classes={ClassName(of): pairs},
        )
        self.message(device, body)

    def answers(self, device: str, pairs: Pairs = GOOD) -> None:
        """Let a device do all that it was offered, and say so."""
        if self.told[DeviceId(device)].mode == "shadow":
            self.says(device, "shadowing")
            self.compares(device, pairs)
            return
        self.says(device, "active")
        self.compares(device, pairs)
        self.says(device, "settled")

    def leaves(self, device: str) -> None:
        """Let a device go away."""
        self.message(device, Death())

    def comes(self, device: str) -> None:
        """Let a device come back with a new run."""
        self.born(device)

    def join(self, device: str) -> None:
        """Admit a new device, which runs what it is told."""
        self.command(AdmitDevice(device=DeviceId(device)))
        self.comes(device)
        self.settle()

    def all_answer_of(self, version: int) -> None:
        """Let every device that is offered a version answer well."""
        for device in self.offered(version=version):
            self.says(device, "active", version=version)
            self.compares(device)
            self.says(device, "settled", version=version)
        self.settle()

    def all_answer(self, group: int, pairs: Pairs = GOOD) -> None:
        """Let every device that a group is new to answer well."""
        for device in self.offered(group):
            self.answers(device, pairs)
        self.settle()

"""One rollout to a fleet of devices: the real rules and entries, and devices that answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.papers.rollout_gates.devices import (
    ACTIVE,
    CANDIDATE,
    CLASSES,
    Case,
    Measured,
    name_of,
)
from fleetledger.coordinator.core.decision import Decision
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted, DeviceBorn
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.models.entries import (
    DeviceModelStatus,
    ModelDesired,
    ModelExported,
    ModelSolved,
)
from fleetledger.coordinator.topics.rollouts.commands import PlanRollout
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared
from fleetledger.coordinator.topics.rollouts.moments import moments
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.rules import Rollouts
from fleetledger.coordinator.topics.rollouts.state import OPEN, Rollout
from fleetledger.schemas.models import Parity, Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.values import BootId, DeviceId, Digest

_SECOND_NS = 1_000_000_000
_ABLE = Capabilities(
    agent_version="0.1.0",
    python="3.11",
    machine="aarch64",
    features=frozenset({"numpy", "onnxruntime"}),
    provider="CPUExecutionProvider",
    memory_mib=4096,
)
_MOST_STEPS = 100_000
"""Of deciding: more are none that a rollout takes."""
_PIXELS = Preprocessing(mode="L", size=(8, 8), mean=(0.0,), deviation=(1.0,), input_name="pixels")


@dataclass(frozen=True)
class Ending:
    """What became of a rollout."""

    stage: str
    group: int
    """The last one that was opened."""
    exposed: int
    """Devices that were told to run the candidate."""
    gates: tuple[str, ...]
    """Those that stopped it."""

    @property
    def stopped(self) -> bool:
        """Whether it was paused, or went back."""
        return self.stage in ("paused", "rolled_back")


class Fleet:
    """A fleet that runs one model and knows another one."""

    def __init__(self, devices: int) -> None:
        self.state, self.live = State(), Live(started_ns=0)
        self.rollouts = Rollouts(Rules(), self.state, self.live)
        self.now_ns = _SECOND_NS
        self.numbers = {name_of(number): number for number in range(devices)}
        self.entries: list[tuple[EntryBody, DeviceId | None, int]] = []
        """All of the ledger: what was recorded, who made it, and when."""
        for body, device in _history(list(self.numbers)):
            self._apply(body, device)
        for name in self.numbers:
            self.live.device(name).here(BootId("00" * 8), self.state.size)

    def roll_out(self, plan: RolloutPlan, measured: Measured, case: Case, seed: int) -> Ending:
        """Take the candidate to the fleet; devices of a phase answer in an order of the seed.

        Devices that were told already answer when it is paused, too. Nobody resumes it.
        """
        order = random.Random(seed)
        decision, _ = self.rollouts.carry_out(PlanRollout(version=2, plan=plan, start=True))
        self._take(decision)
        rollout = self.state.rollouts.by_number[1]
        for _ in range(_MOST_STEPS):
            decision = self.rollouts.due(self.now_ns)
            self._take(decision)
            asked = self._asked(rollout) if rollout.stage in OPEN else []
            order.shuffle(asked)
            if asked:
                self._answer(rollout, asked, measured, case)
            elif rollout.stage not in OPEN or rollout.stage == "paused":
                break
            elif not decision.entries:
                later = (time for time in moments(self.state, self.live) if time >= self.now_ns)
                self.now_ns = min(later) + 1000
        return self._ending(rollout)

    def _asked(self, rollout: Rollout) -> list[DeviceId]:
        """Return who has to answer: who did not, or was offered it again since it failed."""
        models = self.state.models
        asked = []
        for device in sorted(rollout.phase.waiting if rollout.phase is not None else ()):
            desired = models.desired_for(device)
            if desired is not None and desired.action > rollout.members[device].failed_index:
                asked.append(device)
        return asked

    def _answer(
        self, rollout: Rollout, asked: list[DeviceId], measured: Measured, case: Case
    ) -> None:
        """Let devices answer, one after the other, until the rules decide anything."""
        assert rollout.phase is not None
        group, mode = rollout.phase.group, rollout.phase.mode
        for device in asked:
            compared = rollout.members[device].compared
            for body in _answers(self.numbers[device], group, mode, measured, case):
                if compared and isinstance(body, ModelCompared):
                    continue
                self._apply(body, device)
                decision = self.rollouts.due(self.now_ns)
                if decision.entries:
                    self._take(decision)
                    return

    def _take(self, decision: Decision) -> None:
        for entry in decision.entries:
            self._apply(entry.body, entry.device)

    def _apply(self, body: EntryBody, device: DeviceId | None) -> None:
        self.entries.append((body, device, self.now_ns))
        self.state.apply(body, device, self.now_ns)

    def _ending(self, rollout: Rollout) -> Ending:
        phase, last = rollout.phase, rollout.last
        assert phase is not None
        stopped = rollout.stage != "finished" and last is not None
        found = last.gates if stopped and last is not None else ()
        return Ending(
            stage=rollout.stage,
            group=phase.group,
            exposed=sum(member.mode == "run" for member in rollout.members.values()),
            gates=tuple(
                one.gate
                for one in found
                if last is not None and one.outcome == last.outcome and not one.too_little
            ),
        )


def _answers(
    number: int, group: int, mode: str, measured: Measured, case: Case
) -> Iterator[EntryBody]:
    compared = ModelCompared(comparison=measured.comparison(number, group, mode))
    if mode == "shadow":
        yield _status("shadowing")
        yield compared
    elif case.crashes:
        yield _status("rolled_back")
    else:
        yield _status("active")
        yield compared
        yield _status("settled")


def _status(state: str, version: int = 2) -> DeviceModelStatus:
    manifest = CANDIDATE if version == 2 else ACTIVE
    throttled = 0 if state == "settled" else None
    status = {
        "version": version,
        "manifest": manifest,
        "state": state,
        "previous_version": 1 if version == 2 else None,
        "throttled": throttled,
    }
    return DeviceModelStatus.model_validate({"status": status, "offered": version == 2})


def _history(names: list[DeviceId]) -> Iterator[tuple[EntryBody, DeviceId | None]]:
    """Yield what came before: a fleet whose devices run version 1, and another version."""
    frozen = _offer(b"frozen")
    yield (
        BackboneImported(
            name="backbone",
            frozen=frozen,
            golden=_offer(b"golden"),
            preprocessing=_PIXELS,
            backbone_width=64,
            feature_width=64,
            method="stsa",
            settings={},
        ),
        None,
    )
    for number, name in enumerate(names):
        run = BootId(f"{number:016x}")
        yield DeviceAdmitted(device=name), None
        yield DeviceBorn(boot=run, installation=run, capabilities=_ABLE), name
    for version, manifest in ((1, b"active"), (2, b"candidate")):
        yield from ((body, None) for body in _model(version, manifest, frozen.digest))
        if version == 1:
            yield ModelDesired(version=1, reason="the first one"), None
            yield from ((_status("active", 1), name) for name in names)


def _model(version: int, manifest: bytes, lineage: Digest) -> Iterator[EntryBody]:
    yield ModelSolved(
        version=version,
        lineage=lineage,
        ledger_size=0,
        contributions=0,
        class_names=tuple(CLASSES),
        aggregate=Digest.of(b"sum"),
        head=Digest.of(b"head"),
        method="stsa",
        fingerprint={},
        seconds=0.0,
    )
    yield ModelExported(
        version=version,
        manifest=_offer(manifest),
        files=(_offer(b"frozen"), _offer(b"head")),
        parity=Parity(max_absolute_difference=0.0, agreement=1.0, samples=1, runtime="none"),
    )


def _offer(data: bytes) -> Offer:
    return Offer(digest=Digest.of(data), size=len(data), list_digest=Digest.of(data))

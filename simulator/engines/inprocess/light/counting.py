"""Devices of a method of statistics: they count what reached them, and the coordinator takes it.

Each is an agent's rules on records in memory (`agent`). What it gives goes to the core in groups,
with the payload, which the ledger keeps: models are made of it, now and whenever somebody replays.
The method checks a payload when it is added to the sum.

A run that goes on finds no records. What a device has counted follows from what had reached it in
the stages before, and the ledger has the payloads: its rules are asked again, and nothing is
computed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.assignments import action_for, assignment_for
from fleetledger.coordinator.topics.contributions.rules import receipt_for
from fleetledger.device_agent.core.changes import Put
from fleetledger.device_agent.core.inputs import PartComputed
from fleetledger.device_agent.core.requests import ComputePart
from fleetledger.device_agent.core.state import AgentRules, DeviceIdentity
from fleetledger.device_agent.home.part_secret import context_of
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.inprocess.features import LineageFeatures
from fleetledger.simulator.engines.inprocess.light.agent import AgentMemory, CountingAgent, commit
from fleetledger.simulator.engines.inprocess.light.answer_hasher import HashedPayloads
from fleetledger.simulator.engines.inprocess.light.context import LightContext, device_message
from fleetledger.simulator.engines.paths import index_of
from fleetledger.simulator.virtual.parts import Delivery, Lister, PartMaker, PartPlace
from fleetledger.simulator.virtual.seeds import seeded_boot, seeded_secret

_TOGETHER = 64
"""Devices whose parts are committed together."""
_NONE = Digest.of(b"")
_NOT_COMPUTED_BYTES = 1

Delivered = Callable[[DeviceId], Sequence[Delivery]]


@dataclass(frozen=True)
class CountingSetup:
    """What all devices of a fleet have in common."""

    rules: AgentRules
    form: str | None
    """The form of contribution that owners chose."""
    capabilities: Capabilities
    seed: int
    train: SampleSet
    features: LineageFeatures


@dataclass(frozen=True)
class PastScan:
    """A stage of the ledger in which a device looked, and what had reached it by then."""

    stage: int
    delivered: Sequence[Delivery]


class Counting:
    """Lets devices count, and gives the coordinator what they say."""

    def __init__(self, context: LightContext, setup: CountingSetup) -> None:
        self._context = context
        self._setup = setup
        self._boot = seeded_boot(setup.seed, "coordinator", "of counting")
        self._lister, self._parts = Lister(setup.train), PartMaker()
        self._kept: dict[DeviceId, AgentMemory] = {}
        self._done: dict[DeviceId, int] = {}
        """The action of each device's last assignment."""
        self._payloads: dict[Digest, bytes] = {}
        """Of parts that were computed and not said yet."""
        self._small: dict[Digest, bytes] = {}
        """What is committed with the group."""
        self._receipts: list[tuple[DeviceId, Receipt]] = []
        context.coordinator.on_receipt = self._take_receipt

    def asked(self, devices: Sequence[DeviceId]) -> list[DeviceId]:
        """Return those of the devices that have an assignment which they have not carried out."""
        if not self._counts:
            return []
        state = self._context.coordinator.state
        return [name for name in devices if self._done.get(name, -1) < action_for(state, name)]

    def carry_out(self, devices: Sequence[DeviceId], delivered: Delivered) -> None:
        """Have devices do what they are asked, if anything is counted now."""
        if not self._counts:
            return
        state = self._context.coordinator.state
        asked: dict[int, Assignment] = {}
        for start in range(0, len(devices), _TOGETHER):
            group = devices[start : start + _TOGETHER]
            for name in group:
                self._done[name] = action = action_for(state, name)
                if action not in asked:
                    assignment = assignment_for(state, name)
                    assert assignment is not None
                    asked[action] = assignment
                    self._context.traffic.begin(assignment, name, self._context.sent_ms())
            agents = {name: self._agent(name) for name in group}
            self._give(self._counted(agents, asked, delivered))
            while self._receipts:
                self._give(self._answered(agents))
            self._context.progress(start + len(group))

    def restore(self, device: DeviceId, looks: Sequence[PastScan]) -> None:
        """Let a device of a former process know what it has counted; nothing of it is said."""
        if device in self._kept or not self._counts:
            return
        agent, now = self._agent(device), self._context.clock.now
        known = partial(self._known, device)
        for look in looks:
            assignment, found = (
                self._assignment_of(look.stage),
                self._lister.scanned(look.delivered),
            )
            waiting = list(agent.count(assignment, found, known, now))
            while waiting:
                said = waiting.pop()
                if isinstance(said, Contribution | Nothing):
                    receipt = receipt_for(said, Accepted(ledger_index=0))
                    waiting.extend(agent.answered(receipt, now))

    @property
    def _counts(self) -> bool:
        """Whether devices are asked for statistics now."""
        state = self._context.coordinator.state
        leads = state.lineages.current is not None and not state.lineages.in_rounds
        return leads and state.stages.current is not None

    def _agent(self, device: DeviceId) -> CountingAgent:
        seed = self._setup.seed
        if device not in self._kept:
            # Parts have numbers beyond those of the rounds that it took part in.
            answers = self._context.coordinator.state.rounds.of(device).answers
            kept = self._kept[device] = AgentMemory()
            commit(kept.records, (Put(next_part=1 + max(answers, default=-1)),))
        identity = DeviceIdentity(
            seeded_boot(seed, device, "installation"),
            seeded_boot(seed, device, "counting"),
            self._setup.capabilities,
        )
        return CountingAgent(self._setup.rules, identity, self._kept[device], self._boot)

    def _counted(
        self,
        agents: dict[DeviceId, CountingAgent],
        asked: dict[int, Assignment],
        delivered: Delivered,
    ) -> Iterator[inputs.Input]:
        for name, agent in agents.items():
            assignment, compute = asked[self._done[name]], partial(self._computed, name)
            self._context.traffic.asked(name)
            found = self._lister.scanned(delivered(name))
            said = agent.count(assignment, found, compute, self._context.clock.now)
            yield from self._inputs(name, said)

    def _answered(self, agents: dict[DeviceId, CountingAgent]) -> Iterator[inputs.Input]:
        receipts, self._receipts = self._receipts, []
        for name, receipt in receipts:
            said = agents[name].answered(receipt, self._context.clock.now)
            yield from self._inputs(name, said)

    def _take_receipt(self, device: DeviceId, receipt: Receipt) -> None:
        self._receipts.append((device, receipt))

    def _give(self, happenings: Iterable[inputs.Input]) -> None:
        self._context.coordinator.process(happenings, small_blobs=self._small)
        self._small.clear()

    def _inputs(self, device: DeviceId, said: Iterable[Message]) -> Iterator[inputs.Input]:
        """Yield what the core is told when a device says something."""
        context = self._context
        for message in said:
            if isinstance(message, Contribution):
                context.traffic.answered(device, message, context.sent_ms())
                payload = self._payloads.pop(message.payload)
                self._small |= context.coordinator.blobs.stage([payload])
                yield inputs.PayloadOutcome(device, message)
                continue
            if isinstance(message, Nothing):
                context.traffic.declined(device, message, context.sent_ms())
            yield device_message(context, device, message)

    def _computed(self, device: DeviceId, request: ComputePart) -> PartComputed:
        context, source = self._context, self._setup.features(request.assignment.lineage)
        began = time.perf_counter()
        rows = np.array([index_of(image.path) for image in request.images], np.int64)
        with context.stopwatch.phase("features"):
            features = source.train(rows)
        with context.stopwatch.phase("statistics"):
            secret = seeded_secret(self._setup.seed, device)
            chance = context_of(device, self._setup.form, request.job, secret)
            part = self._parts.computed(device, request, features, PartPlace(chance, self))
        if part.attached is not None:
            self._payloads[part.contribution.payload] = part.attached
        seconds = time.perf_counter() - began
        context.spent(device, seconds + source.seconds_per_image * len(rows))
        return part

    def offer(self, data: bytes) -> Offer:
        """Keep a payload that is too large to be attached."""
        offer = HashedPayloads().offer(data)
        self._payloads[offer.digest] = data
        return offer

    def _known(self, device: DeviceId, request: ComputePart) -> PartComputed:
        """Return a part as a former process made it; nothing is asked of one that was replaced."""
        held = self._context.coordinator.state.contributions.of(device).parts.get(request.job.key)
        digest = None if held is None else held.payload
        contribution = Contribution(
            key=request.job.key,
            revision=request.job.revision,
            payload_kind=descriptor(request.assignment.method).payload_kinds[0],
            method=request.job.method,
            lineage=request.job.lineage,
            payload=digest or _NONE,
            payload_bytes=_NOT_COMPUTED_BYTES,
            samples=dict(Counter(image.class_name for image in request.images)),
        )
        used = frozenset(image.digest for image in request.images)
        return PartComputed(request.job, contribution, used, attached=b"")

    def _assignment_of(self, number: int) -> Assignment:
        """Return what devices were asked in a stage, of the lineage that leads."""
        state = self._context.coordinator.state
        now = assignment_for(state, next(iter(state.devices.admitted)))
        assert now is not None
        stages = state.stages.by_number
        known = {name for stage in range(1, number + 1) for name in stages[stage].class_names}
        return now.model_copy(
            update={
                "action": min(now.action, max(stages[number].opened_index, state.lineages.changed)),
                "stage": number,
                "class_names": tuple(name for name in now.class_names if name in known),
                "stage_class_names": stages[number].class_names,
            }
        )

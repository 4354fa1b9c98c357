"""A device of light agents that act: its agent's rules on records in memory, in virtual time.

What the rules ask for is done at once, by the jobs in `virtual.device_jobs`. An answer is
taken before the next message: in another order a device that is late reports something else.
Files lie in one folder of the fleet; which of them a device has, its rules know.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from fleetledger.coordinator.core import inputs as told
from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable, drafted
from fleetledger.device_agent.core.requests import (
    CancelFetch,
    CleanFiles,
    FetchFile,
    ReferTo,
    Request,
    Say,
    Send,
    SendOutboxMessage,
    WakeAt,
)
from fleetledger.device_agent.core.session import Rule, turn
from fleetledger.device_agent.core.state import AgentRecords, AgentRules, AgentState, DeviceIdentity
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.part_secret import context_of
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.program.cohort_jobs import CohortJobs, CohortSurroundings
from fleetledger.device_agent.program.mail import as_sent
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import Envelope, Sender, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import (
    MAX_FORMER_RUNS,
    Capabilities,
    CoordinatorBirth,
    Death,
    Welcome,
)
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.home import FLEET
from fleetledger.simulator.engines.inprocess.light.timed_coordinator import TimedCoordinator
from fleetledger.simulator.engines.inprocess.light.timed_memory import DeviceMemory, MemoryFile
from fleetledger.simulator.engines.inprocess.light.timed_world import TimedWorld, fetch_seconds
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.rollouts.held_out import FOLDER, RolloutGear
from fleetledger.simulator.virtual.device_jobs import (
    Equipment,
    Resources,
    VirtualDeviceJobs,
    named,
)
from fleetledger.simulator.virtual.loop import Endpoint
from fleetledger.simulator.virtual.models import SharingInstaller
from fleetledger.simulator.virtual.seeds import seeded_boot, seeded_secret
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.meter import Counts

Made = TypeVar("Made", bound=inputs.PartComputed | inputs.TrainingFinished | inputs.PartMasked)


class FleetFiles(BlobFolder):
    """Every file of the fleet once; payloads are in memory until their message is written."""

    def __init__(
        self, folder: Path, read: Callable[[Digest], bytes], held: Iterable[Digest] = ()
    ) -> None:
        """`read` gives what the coordinator offers; by `held` devices remember already."""
        super().__init__(folder, durable=False)
        self._read = read
        self._payloads: dict[Digest, list[bytes]] = {}
        self._held = Counter(held)
        """Devices that remember by a file; of two that have the same data it may be the same."""
        self._let_go: list[Digest] = []

    def bring(self, offer: Offer) -> None:
        """Have a file here that the coordinator offers."""
        if not self.path(offer.digest).exists():
            self.put(self._read(offer.digest), offer.digest)

    def hold(self, memory: Digest | None, former: Digest | None) -> None:
        """Note by which file a device remembers from here on."""
        if memory is not None:
            self._held[memory] += 1
        if former is not None:
            self._held[former] -= 1
            self._let_go.append(former)

    def forget(self) -> None:
        """Remove the files by which nobody remembers."""
        for digest in self._let_go:
            if self._held[digest] == 0:
                self.path(digest).unlink(missing_ok=True)
                del self._held[digest]
        self._let_go.clear()

    def offer(self, data: bytes) -> Offer:
        """Keep a payload that is too large to be attached."""
        offer = BlockSource(data).offer
        self._payloads.setdefault(offer.digest, []).append(data)
        return offer

    def attached(self, event: Made) -> Made:
        """Return what a device has made with the payloads that were offered.

        What is to be given behind masks becomes a file instead, which only the device reads.
        """
        given = event.contribution
        if given.offer is not None:
            data = self._take(given.payload)
            if isinstance(event, inputs.PartMasked) or not event.job.masked:
                event = replace(event, attached=data)
            else:
                self.put(data, given.payload)
        if isinstance(event, inputs.TrainingFinished):
            made = event.gradients
            if made is not None and made.offer is not None:
                return replace(event, gradients=replace(made, attached=self._take(made.payload)))
        return event

    def _take(self, digest: Digest) -> bytes:
        """Hand out a payload; devices may have offered the same."""
        same = self._payloads.pop(digest)
        data = same.pop()
        if same:
            self._payloads[digest] = same
        return data


@dataclass(frozen=True)
class TimedContext:
    """What all devices stand on."""

    world: TimedWorld
    coordinator: TimedCoordinator
    files: FleetFiles
    resources: Resources
    decides_by: AgentRules
    rules: Sequence[Rule]
    """Those that may have something to do, in their order."""
    capabilities: Capabilities
    settings: AgentSettings
    """Of every device, but for its name."""
    agents: Path
    """Folder of the homes, which hold what devices compare models on."""
    seed: int
    era: int
    """Differs between processes that run one fleet after another, so that boots differ too."""
    rollout: RolloutGear | None
    memories: MemoryFile
    to_proxy: Callable[[DeviceId, PrototypeGradients, bytes], None]
    """Sends gradients of a device to the proxy."""
    changed: dict[DeviceId, TimedDevice] = field(default_factory=dict)
    """Devices that remember something else than the file says."""

    def remember(self) -> None:
        """Write what has changed in the memory of devices."""
        if self.changed:
            self.memories.write({name: item.memory() for name, item in self.changed.items()})
            self.changed.clear()
            self.files.forget()


@dataclass
class _Run:
    """One run of the agent, from its start to its end."""

    state: AgentState
    sender: Sender
    endpoint: Endpoint
    wake_at: float = math.inf
    answers: deque[inputs.Input] = field(default_factory=deque)
    """Of what was asked."""
    messages: deque[Message] = field(default_factory=deque)


class TimedDevice:
    """One device, on or off."""

    __slots__ = (
        "_context",
        "_counts",
        "_memory",
        "_run",
        "_tags",
        "busy_until",
        "jobs",
        "name",
        "unanswered",
    )

    def __init__(self, context: TimedContext, name: DeviceId) -> None:
        self.name = name
        self.unanswered = 0
        """Messages without a receipt, when it was last stepped."""
        self.busy_until = -math.inf
        """When the device takes messages again."""
        self._context = context
        self._memory = context.memories.read(name)
        self._counts = [0, 0, 0, 0]
        """Messages and bytes up, and down."""
        self._run: _Run | None = None
        gear, settings = context.rollout, context.settings.model_copy(update={"device": name})
        if gear is not None:
            settings = gear.settings(settings, name)
            gear.held_out.deliver(name, context.agents / name / FOLDER)
        self._tags = settings.tags
        home, models = AgentHome(context.agents / name, settings), context.resources.models
        failing = gear is not None and name in gear.fleet.failing
        equipment = Equipment(
            home,
            context.files,
            self._memory.slots,
            SharingInstaller(models, self._memory.slots, home.evaluation_folder),
            partial(
                context_of,
                name,
                settings.contribution_form,
                secret=seeded_secret(context.seed, name),
            ),
            CohortJobs(
                CohortSurroundings(
                    settings.fleet,
                    name,
                    secret=partial(seeded_secret, context.seed, "masks", name),
                    key=lambda: None,
                    read=context.files.read,
                    blobs=context.files,
                )
            ),
        )
        self.jobs = VirtualDeviceJobs(context.resources, equipment, failing=failing)

    def memory(self) -> DeviceMemory:
        """Return what it remembers now."""
        if self._run is not None:
            self._memory.files = self._run.state.files.here
        return self._memory

    @property
    def on(self) -> bool:
        """Whether the agent runs."""
        return self._run is not None

    def traffic(self) -> Counts:
        """Return what it has sent and received; requests for blocks are not counted."""
        return Counts(*self._counts)

    def start(self) -> None:
        """Switch the device on."""
        assert self._run is None, "it runs already"
        context, memory = self._context, self._memory
        boot = seeded_boot(context.seed, self.name, context.era, len(memory.boots) + 1)
        identity = DeviceIdentity(
            seeded_boot(context.seed, self.name, "installation"),
            boot,
            context.capabilities,
            memory.boots[:MAX_FORMER_RUNS],
            self._tags,
        )
        memory.boots = (boot, *memory.boots)
        context.changed[self.name] = self
        state = AgentState(named(context.decides_by, self.name), identity, memory.records)
        endpoint = Endpoint(context.world.loop, lambda: self._step(run))
        self._run = run = _Run(state, Sender(FLEET, self.name, boot), endpoint)
        self.jobs.deliver = partial(self._answer, run)
        active, candidate = memory.slots.active(), memory.slots.candidate()
        started = inputs.Started(
            None if active is None else active.model,
            memory.files,
            context.world.loop.clock.time_ns(),
            None if candidate is None else candidate.model,
        )
        run.answers += (started, inputs.AgentConnected())
        endpoint.ask()
        context.coordinator.connect(self)

    def stop(self) -> None:
        """Switch it off; it says goodbye."""
        run = self._run
        if run is not None:
            self._say(run, Death(reason="the agent was stopped"))
            self._context.coordinator.disconnect(self.name, run.messages)
            self.memory()
            self.close()

    def close(self) -> None:
        """End its run, as the end of the simulating process would."""
        if self._run is not None:
            self._run.endpoint.end()
            self._run = None

    def keep_busy(self, until: float) -> None:
        """Let it take no message before a time."""
        self.busy_until = max(self.busy_until, until)
        if self._run is not None:
            endpoint = self._run.endpoint
            endpoint.not_before = max(endpoint.not_before, until)

    def hear(self, body: Message, size: int) -> None:
        """Take what the coordinator says; what comes when it is off waits for it."""
        run = self._run
        if run is None:
            self._context.coordinator.keep(self.name, body)
            return
        self._count(2, size)
        run.messages.append(body)
        run.endpoint.ask()

    def _read(self, body: Message) -> inputs.Input:
        boot = self._context.coordinator.boot
        match body:
            case CoordinatorBirth():
                return inputs.CoordinatorBorn(boot, body)
            case Welcome():
                return inputs.Welcomed(boot, body)
            case Assignment():
                return inputs.Assigned(boot, body)
            case DesiredModel():
                clock = self._context.world.loop.clock
                return inputs.DesiredArrived(boot, body, clock.time_ns())
            case Receipt():
                return inputs.ReceiptArrived(body)
            case _:
                raise EngineError(f"{self.name}: the coordinator complains: {body}")

    def _answer(self, run: _Run, answer: inputs.Input) -> None:
        """Take the answer to something that took its time, if the run that asked goes on."""
        if run is self._run:
            run.answers.append(answer)
            run.endpoint.ask()

    def _step(self, run: _Run) -> float:
        clock = self._context.world.loop.clock
        while run.answers or run.messages or run.wake_at <= clock.now:
            if run.answers:
                self._give(run, run.answers.popleft())
            elif run.messages:
                self._give(run, self._read(run.messages.popleft()))
            else:
                self._give(run, inputs.Ticked())
        self.unanswered = len(run.state.records.outbox)
        return run.wake_at

    def _give(self, run: _Run, event: inputs.Input) -> None:
        context = self._context
        if isinstance(event, inputs.PartComputed | inputs.TrainingFinished | inputs.PartMasked):
            event = context.files.attached(event)
        for request in turn(run.state, event, context.world.now, self._commit, context.rules):
            self._carry_out(run, request)

    def _commit(self, records: AgentRecords, changes: tuple[Durable, ...]) -> None:
        draft = drafted(records, changes)
        if draft.memory != records.memory:
            self._context.files.hold(draft.memory, records.memory)
        self._memory.take(draft)
        self._context.changed[self.name] = self

    def _carry_out(self, run: _Run, request: Request) -> None:
        match request:
            case WakeAt(moment):
                run.wake_at = moment
            case SendOutboxMessage(key, Contribution() as body):
                payload = self._memory.payloads[key]
                self._seal(run, body, len(payload))
                self._to_coordinator(told.PayloadOutcome(self.name, body), payload)
            case SendOutboxMessage(key, PrototypeGradients() as body):
                payload = self._memory.payloads[key]
                self._seal(run, body, len(payload))
                self._context.to_proxy(self.name, body, payload)
            case Send(_, body) | SendOutboxMessage(_, body):
                self._say(run, body)
            case FetchFile(offer):
                self._fetch(run, offer)
            case CleanFiles(keep):
                left = run.state.files.here & (keep | self._memory.slots.digests())
                run.answers.append(inputs.FilesListed(left))
            case CancelFetch() | ReferTo() | Say():
                pass
            case _:
                run.answers += self.jobs.answer(request)

    def _fetch(self, run: _Run, offer: Offer) -> None:
        """Have a file arrive when its blocks would."""
        world = self._context.world
        self._context.files.bring(offer)
        self._count(2, offer.size, offer.block_count)
        here = world.now + fetch_seconds(offer, 2 * world.latency_seconds)
        world.loop.at(here, partial(self._answer, run, inputs.FetchFinished(offer.digest)))

    def _say(self, run: _Run, body: Message) -> None:
        self._to_coordinator(told.DeviceMessage(self.name, self._seal(run, as_sent(body))))

    def _seal(self, run: _Run, body: Message, payload_bytes: int = 0) -> Envelope:
        """Return the envelope of what is sent, and count its bytes."""
        sent_ms = self._context.world.loop.clock.time_ns() // 1_000_000
        envelope = run.sender.seal(body, sent_ms=sent_ms)
        self._count(0, len(encode(envelope)) + payload_bytes)
        return envelope

    def _to_coordinator(self, happening: told.Input, payload: bytes | None = None) -> None:
        context = self._context
        act = partial(context.coordinator.hear, happening, payload)
        context.world.carry(("from", self.name), act)

    def _count(self, first: int, size: int, messages: int = 1) -> None:
        self._counts[first] += messages
        self._counts[first + 1] += size

"""Assembly of an agent: its home and its surroundings become a shell.

The real program, the simulators' and the tests' are put together here. They differ in their
surroundings alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from fleetledger.device_agent.core.records import EnrollingState
from fleetledger.device_agent.core.state import AgentRules, AgentState, DeviceIdentity, LedgerTrust
from fleetledger.device_agent.home.health.machine import Machine
from fleetledger.device_agent.home.health.reader import HealthReader, TextfileWriter
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.device_agent.home.pinned_root import check_taken, pinned_of
from fleetledger.device_agent.home.store.blobs import BlobFolder, make_folder
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.models.uncertainty import detection_of
from fleetledger.device_agent.models.variants import wanted_variants
from fleetledger.device_agent.program.capabilities import find_capabilities
from fleetledger.device_agent.program.device_jobs import DeviceJobs, LocalDeviceJobs
from fleetledger.device_agent.program.file_urls import https_rules, reported_capabilities
from fleetledger.device_agent.program.mail import AgentMail, Signing, make_will
from fleetledger.device_agent.program.parts import AgentParts, local_minute
from fleetledger.device_agent.program.proxy_blocks import ProxyBlocks
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.device_agent.program.worker import AgentWorker, Answer, WorkerThread
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId
from fleetledger.schemas.wire import OWN, WireVersions
from fleetledger.transport.alternative_source import HttpsRules
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.meter import Counts
from fleetledger.transport.transfer import BlockExchange, Exchange, Party

Connect: TypeAlias = "Callable[[str, OutgoingMessage | None], Connection]"
"""Makes the connection of a role (`control`, `data` or `proxy`), with its will."""
Traffic = Callable[[], Counts]
_TEXTFILE_SECONDS = 60.0
"""Between two textfiles where the coordinator is told nothing of the machine."""


def slots_in(state_folder: Path) -> ModelSlots:
    """Return the slots of a device that may lose its power at any time."""
    return ModelSlots(state_folder / "slots")


def exchange_over(connect: Connect, party: Party) -> BlockExchange:
    """Return an exchange of blocks over a connection of its own."""
    made = BlockExchange(connect(party.role, None), party.topics, party.sender, device=party.device)
    made.https = party.https
    return made


@dataclass(frozen=True)
class AgentSurroundings:
    """What an agent runs on; a real one where nothing else is said."""

    connect: Connect
    exchange: Callable[[Connect, Party], Exchange] = exchange_over
    """Makes an exchange of blocks, not yet at work."""
    jobs: Callable[[AgentHome, BlobFolder, ModelSlots, Traffic, Machine | None], DeviceJobs] = (
        LocalDeviceJobs
    )
    worker: Callable[[Answer, Callable[[], None], Callable[[], None]], AgentWorker] = WorkerThread
    """Makes whoever does the work, of what answers a request, wakes the agent, and tidies up."""
    slots: Callable[[Path], ModelSlots] = slots_in
    """Makes the slots in a state folder."""
    clock: Clock = SYSTEM_CLOCK
    durable: bool = True
    """Whether what is written outlives a loss of power."""
    block_size: int = DEFAULT_BLOCK_SIZE
    """Bytes of a block of what it offers."""
    boot: BootId = field(default_factory=BootId.fresh)
    name_installation: Callable[[], BootId] = BootId.fresh
    capabilities: Capabilities = field(default_factory=find_capabilities)
    wire: WireVersions = OWN
    """Versions of the wire that it speaks."""
    rules: AgentRules | None = None
    """By which it decides; those of its settings if left out."""
    tells_status: bool = True
    """Whether it writes its status file, for people who look."""
    machine: Machine | None = field(default_factory=Machine)
    """Of which it tells how it is; None where there is none to be told of."""
    minute_of_day: Callable[[int], int] = local_minute
    """Returns the minute of the day where it is, from nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class AssembledAgent:
    """An agent that has not begun yet, and what it is made of."""

    agent: AgentShell
    parts: AgentParts


def assemble(home: AgentHome, around: AgentSurroundings) -> AssembledAgent:
    """Put an agent together, with its connections, which are not opened yet.

    Raises `StoreError`, and `HomeError` or `SettingsError` for keys and roots that cannot be used.
    """
    make_folder(home.state_folder, durable=around.durable)
    # Features and exemplars tell of images.
    home.state_folder.chmod(0o700)
    database = home.state_folder / "agent.db"
    store = AgentStore(database, durable=around.durable, name=around.name_installation)
    with ExitStack() as stack:
        stack.callback(store.close)
        parts = _parts(home, around, store)
        stack.pop_all()
    return AssembledAgent(AgentShell(parts), parts)


def _parts(home: AgentHome, around: AgentSurroundings, store: AgentStore) -> AgentParts:
    settings, boot, machine = home.settings, around.boot, around.machine
    fleet, device, topics = settings.fleet, settings.device, FleetTopics(settings.fleet)
    blobs = BlobFolder(
        home.state_folder / "blobs", durable=around.durable, block_size=around.block_size
    )
    slots = around.slots(home.state_folder)
    keys = KeyRing.beside(home.folder, fleet, device)
    state = _state(home, around, store, keys)
    # The will may be told long after a key that waits has come to count.
    sender = Sender(fleet, device, boot, signer=keys.newest, wire=around.wire)
    control = around.connect("control", make_will(topics, device, sender, around.clock))

    def exchange(topics: FleetTopics, https: HttpsRules | None = None) -> Exchange:
        # A sender is for one thread, so that of the blocks has its own.
        party = Party(topics, Sender(fleet, device, boot), device, https)
        return around.exchange(around.connect, party)

    def proxy_exchange() -> Exchange:
        made = exchange(FleetTopics(fleet, "proxy"))
        made.on_failure = worker.fail
        made.start()
        return made

    blocks = exchange(topics, https_rules(home))
    proxy = ProxyBlocks(proxy_exchange)

    def traffic() -> Counts:
        return control.meter.total() + blocks.traffic() + proxy.traffic()

    jobs = around.jobs(home, blobs, slots, traffic, machine)
    worker = around.worker(jobs.answer, control.wake, jobs.rest)
    blocks.on_failure = worker.fail
    signing = Signing(keys.signer_for, settings.coordinator_key)
    return AgentParts(
        home=home,
        state=state,
        store=store,
        blobs=blobs,
        slots=slots,
        control=control,
        exchange=blocks,
        mail=AgentMail(control, topics, device, sender, around.clock, signing=signing),
        jobs=jobs,
        worker=worker,
        status_file=home.status_file if around.tells_status else None,
        clock=around.clock,
        minute_of_day=around.minute_of_day,
        proxy=proxy,
        keys=keys,
        health=None if machine is None else HealthReader(machine, home.state_folder),
        textfile=None if machine is None else _textfile_of(home),
    )


def _state(
    home: AgentHome, around: AgentSurroundings, store: AgentStore, keys: KeyRing
) -> AgentState:
    """Return the state of a new run, as the store has it."""
    identity = DeviceIdentity(
        store.installation,
        around.boot,
        reported_capabilities(around.capabilities, home.settings.files),
        store.begin_run(around.boot),
        home.settings.tags,
        around.wire.range,
    )
    rules = around.rules or _told_of(rules_of(home), around.machine)
    state = AgentState(rules, identity, store.load())
    check_taken(rules.pinned, state.records)
    state.enrolling = EnrollingState(keys.asks, first=keys.current is None)
    return state


def _told_of(rules: AgentRules, machine: Machine | None) -> AgentRules:
    return rules if machine is not None else replace(rules, health_seconds=None)


def _textfile_of(home: AgentHome) -> TextfileWriter | None:
    settings = home.settings.health
    if settings.textfile is None:
        return None
    path = home.folder / settings.textfile
    return TextfileWriter(path, settings.seconds or _TEXTFILE_SECONDS)


def rules_of(home: AgentHome) -> AgentRules:
    """Return the settings by which the rules decide."""
    return AgentRules(
        scan_seconds=home.settings.data.scan_seconds,
        pause_seconds=home.settings.data.pause_seconds,
        longest_pause_seconds=home.settings.data.longest_pause_seconds,
        deadline_seconds=home.settings.model.deadline_hours * 3600,
        evaluates=home.evaluation_folder is not None,
        detection=(
            detection_of(home.settings.detection, home.settings.device)
            if home.settings.data.kind.suffixes
            else None
        ),
        policy=home.settings.policy,
        privacy=home.settings.privacy,
        samples=home.settings.data.samples,
        trust=trust_of(home.settings),
        pinned=pinned_of(home),
        silent_seconds=home.settings.trust.silent_hours * 3600,
        health_seconds=home.settings.health.seconds or None,
        variants=wanted_variants(home.settings.model),
    )


def trust_of(settings: AgentSettings) -> LedgerTrust | None:
    """Return whom this device believes about the ledger; None where it asks for no proof."""
    if settings.coordinator_key is None:
        return None
    return LedgerTrust(settings.fleet, settings.device, settings.coordinator_key)

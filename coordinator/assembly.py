"""Assembly of a coordinator: its home and its surroundings become a shell.

The real program and the simulators' are put together here. They differ in their surroundings
alone. The part that needs no network is a local coordinator, which replays and measures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.errors import LackingError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.keys import coordinator_key, signer_of_notes
from fleetledger.coordinator.ledger.mirror_notes import mirror_problems
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.models.job_runner import JobRunner, ThreadJobRunner
from fleetledger.coordinator.models.kept_sums import KeptSums
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.models.payload_check import PayloadCheck
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.program.authenticator import Authenticator
from fleetledger.coordinator.program.broker_folders import certificate_watch
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.program.file_hosting import HostedData, HostedUrls
from fleetledger.coordinator.program.file_server import FileServer
from fleetledger.coordinator.program.file_urls import file_urls
from fleetledger.coordinator.program.live_writer import LiveWriter, SnapshotFile
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.program.payload_intake import PayloadIntake
from fleetledger.coordinator.program.quotas import Quotas
from fleetledger.coordinator.program.shell import CommandInbox, CoordinatorParts, Shell
from fleetledger.coordinator.program.snapshot_keeper import SnapshotKeeper
from fleetledger.coordinator.program.watch import ProblemSource
from fleetledger.coordinator.program.workers.connection import Facts, SharedConnection
from fleetledger.coordinator.program.workers.processes import IntakeWorkers
from fleetledger.coordinator.program.workers.worker import WorkerPlan
from fleetledger.coordinator.settings import CoordinatorSettings, load, rules_of_serving
from fleetledger.coordinator.topics.clock.views import CALENDAR_TOLERANCE_NS, entries_ahead
from fleetledger.coordinator.topics.lineages.rules import lacks
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.coordinator.trust.release_key import release_signer
from fleetledger.runtime.problems import PATIENCE_SECONDS, OpenProblem
from fleetledger.schemas.envelope import Sender, encode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.presence import CoordinatorDeath
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.schemas.wire import OWN, WireVersions
from fleetledger.transport.access import PasswordMisuse
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock, steady_time
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.transfer import BlockExchange, Party

log = logging.getLogger("coordinator")

Connect: TypeAlias = "Callable[[str, OutgoingMessage | None], Connection]"
"""Makes the connection of a role (`control` or `data`), with its will."""


@dataclass(frozen=True)
class CoordinatorSurroundings:
    """What a coordinator runs on; a real one where nothing else is said."""

    connect: Connect
    exchange: Callable[[Connect, Party], BlockExchange] = lambda connect, party: BlockExchange(
        connect(party.role, None), party.topics, party.sender
    )
    """Makes the exchange of blocks, not yet at work."""
    job_runner: Callable[[Callable[[], None]], JobRunner] = ThreadJobRunner
    inbox: Callable[[Path], CommandInbox] = OperatorInbox
    clock: Clock = SYSTEM_CLOCK
    boot: BootId = field(default_factory=BootId.fresh)
    rules: Callable[[CoordinatorSettings], Rules] = rules_of_serving
    """By which it decides."""
    wire: WireVersions = OWN
    """Versions of the wire that it speaks."""
    workers: Sequence[WorkerPlan] = ()
    """Processes that hear the devices in its place."""
    live: Callable[[Path], SnapshotFile] | None = LiveFile
    """Opens what is written every two seconds for those who want to see the fleet as it is; None
    where time is not the system's."""
    misused: Callable[[int], tuple[PasswordMisuse, ...]] = lambda _: ()
    """Users of the broker whose password somebody else may have, at a time in nanoseconds."""
    hosted: Callable[[Path, CoordinatorSettings, HostedData], HostedUrls | None] = (
        lambda home, settings, data: None
    )
    """Makes the web server of files; only a program that devices reach by a network has one."""
    snapshots: bool = True
    """Whether processes of their own keep the state beside the ledger; not where time is not the
    system's, since they do not wait for it."""

    def decides(self, settings: CoordinatorSettings) -> Rules:
        """Return the rules, with the versions of the wire."""
        return self.rules(settings).model_copy(update={"wire": self.wire.range})


@dataclass(frozen=True)
class LocalCoordinator:
    """Parts of a coordinator without a network: core, ledger, files and the maker of models."""

    home: Path
    settings: CoordinatorSettings
    rules: Rules
    key: SigningKey
    engine: LedgerEngine
    store: BlobStore
    maker: ModelMaker

    @property
    def blobs(self) -> Blobs:
        """Small files of the ledger, and large ones beside it."""
        return Blobs(self.engine.ledger, self.store)


@dataclass(frozen=True)
class AssembledCoordinator:
    """Coordinator that has not started, with its parts."""

    local: LocalCoordinator
    shell: Shell
    exchange: BlockExchange
    close: Callable[[], None]
    """Ends its threads, and closes its files."""
    hosted: HostedUrls | None = None

    def start(self) -> None:
        """Connect, and listen where devices fetch files."""
        if self.hosted is not None:
            self.hosted.start()
        self.exchange.start()
        self.shell.start()


def open_local(
    home: Path, clock: Clock, rules: Callable[[CoordinatorSettings], Rules] = rules_of_serving
) -> LocalCoordinator:
    """Open the ledger of the coordinator that lives in `home`; its settings must be there.

    Raises `SettingsError`, `KeyFileError`, `LackingError` where the ledger's method or network is
    not installed here, and what `LedgerEngine.open` raises.
    """
    settings = load(home)
    key = coordinator_key(home, settings.fleet)
    decides_by = rules(settings)
    engine = LedgerEngine.open(
        home,
        decides_by,
        clock=steady_time(clock),
        calendar=clock.time_ns,
        sign_note=signer_of_notes(key, settings.fleet),
        sign_release=release_signer(home, settings),
    )
    lineage = engine.core.state.lineages.current
    if lineage is not None and (lacked := lacks(lineage)):
        engine.close()
        raise LackingError(lacked)
    store = BlobStore(settings.blobs or blob_folder(home))
    maker = ModelMaker(home, store, KeptSums(engine.ledger.path, key))
    return LocalCoordinator(home, settings, decides_by, key, engine, store, maker)


def assemble(home: Path, around: CoordinatorSurroundings) -> AssembledCoordinator:
    """Put the coordinator that lives in `home` together; its settings must be there.

    Raises what `open_local` raises, and what making the connections does.
    """
    with ExitStack() as stack:
        local = open_local(home, around.clock, around.decides)
        stack.callback(local.engine.close)
        if local.engine.ahead_ns > CALENDAR_TOLERANCE_NS:
            log.warning("%s", entries_ahead(local.engine.ahead_ns))
        inbox = around.inbox(home)
        stack.callback(inbox.close)
        topics, name = FleetTopics(local.settings.fleet), local.settings.broker.username
        sender = Sender(topics.fleet, name, around.boot, signer=local.key, wire=around.wire)
        control = _heard_by(around.workers, around.connect("control", _will(topics, sender)), local)
        # Blocks are named by their digests in what is signed here, and need no signature.
        party = Party(topics, Sender(topics.fleet, name, around.boot))
        exchange = around.exchange(around.connect, party)
        stack.callback(exchange.stop)
        job_runner = around.job_runner(control.wake)
        stack.callback(job_runner.stop)
        exchange.on_failure = job_runner.fail
        hosted = around.hosted(home, local.settings, _hosted(local.engine, exchange))
        if hosted is not None:
            hosted.host.on_failure = job_runner.fail
            stack.callback(hosted.stop)
        live = None
        if around.live is not None:
            live = LiveWriter(
                partial(around.live, home), topics.fleet, around.clock, around.misused
            )
            live.note(committed_ns=local.engine.last_ns)
            stack.callback(live.close)
        keeper = None
        if around.snapshots:
            keeper = _keeper(local)
            stack.callback(keeper.close)
        links = _Links(sender, control, exchange, job_runner, inbox, live, keeper, hosted)
        shell = Shell(_parts(local, links, around.clock))
        return AssembledCoordinator(local, shell, exchange, stack.pop_all().close, hosted)


def _heard_by(
    plans: Sequence[WorkerPlan], control: Connection, local: LocalCoordinator
) -> Connection:
    """Return a connection whose messages of devices come by way of workers, if there are any."""
    if not plans:
        return control
    engine = local.engine
    facts = Facts(
        FleetTopics(local.settings.fleet),
        keys=lambda: engine.core.state.keys,
        lineages=lambda: engine.core.state.lineages,
    )
    return SharedConnection(control, IntakeWorkers(plans, control.wake), facts)


@dataclass(frozen=True)
class _Links:
    """What a coordinator has to do with others."""

    sender: Sender
    control: Connection
    exchange: BlockExchange
    job_runner: JobRunner
    inbox: CommandInbox
    live: LiveWriter | None
    snapshots: SnapshotKeeper | None
    hosted: HostedUrls | None


def _keeper(local: LocalCoordinator) -> SnapshotKeeper:
    engine, every = local.engine, local.settings.ledger.snapshot_every
    return SnapshotKeeper(engine.ledger.path, every, engine.snapshot_size)


def _parts(local: LocalCoordinator, links: _Links, clock: Clock) -> CoordinatorParts:
    home, settings, engine = local.home, local.settings, local.engine
    topics, invitations = FleetTopics(settings.fleet), Invitations(home)
    intake = PayloadIntake(
        links.exchange,
        links.job_runner,
        local.store,
        home / "incoming",
        PayloadCheck(),
        local.maker.networks,
    )
    files = FileServer(
        links.exchange,
        lambda: local.blobs,
        links.hosted or file_urls(settings.files, clock.seconds),
        partial(_features_of, engine),
    )
    return CoordinatorParts(
        topics=topics,
        sender=links.sender,
        connection=links.control,
        engine=engine,
        inbox=links.inbox,
        job_runner=links.job_runner,
        intake=intake,
        maker=local.maker,
        files=files,
        store=local.store,
        invitations=invitations,
        authenticator=Authenticator(
            topics,
            lambda: engine.core.state,
            invitations.secret,
            require_keys=settings.security.require_keys,
            wire=links.sender.wire,
        ),
        clock=clock,
        quotas=Quotas(settings.intake),
        blocks=links.exchange.traffic,
        by_http=lambda: 0 if links.hosted is None else links.hosted.sent,
        live=links.live,
        snapshots=links.snapshots,
        problem_sources=[
            *_problem_sources(links),
            intake.problems,
            files.problems,
            lambda: mirror_problems(home, engine.core.state.size, clock.time_ns()),
            certificate_watch(home, settings, clock).problems,
        ],
    )


def _problem_sources(links: _Links) -> Iterator[ProblemSource]:
    """Yield what says of each part that may wait without end what is wrong with it."""
    yield links.job_runner.problems
    yield partial(_of_blocks, links.control, links.exchange)
    if isinstance(links.control, SharedConnection):
        yield links.control.problems
    if links.snapshots is not None:
        yield links.snapshots.problems
    if links.hosted is not None:
        yield links.hosted.problems


def _of_blocks(control: Connection, exchange: BlockExchange) -> Iterator[OpenProblem]:
    """Yield why no payload comes and no file goes, although messages do."""
    if control.connected and not exchange.connection.connected:
        why = exchange.trouble or "the broker has not taken it"
        text = f"the connection for payloads and files is not there: {why}"
        yield OpenProblem("blocks", text, True, PATIENCE_SECONDS, "away")


def _hosted(engine: LedgerEngine, exchange: BlockExchange) -> HostedData:
    """Return what devices may fetch by HTTP: what the broker offers, while they belong here."""

    def data(digest: Digest) -> Path | bytes | None:
        source = exchange.source(digest)
        return None if source is None else source.data

    def allows(device: DeviceId) -> bool:
        state = engine.core.state
        return device in state.devices.admitted and not state.keys.of(device).revoked

    return HostedData(data, allows)


def _features_of(engine: LedgerEngine, device: DeviceId) -> Collection[str]:
    """Return what a device said at its newest birth that it can."""
    known = engine.core.state.devices.admitted.get(device)
    return known.capabilities.features if known is not None and known.capabilities else ()


def _will(topics: FleetTopics, sender: Sender) -> OutgoingMessage:
    """Return the coordinator's death, which the broker tells; nobody asks it when that was."""
    topic = topics.coordinator_state
    death = sender.seal(CoordinatorDeath(), sent_ms=0, topic=topic)
    return OutgoingMessage(topic, encode(death), qos=1, retain=True)

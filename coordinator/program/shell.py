"""The coordinator's shell over a connection: gathers inputs, lets the engine commit, carries out.

One thread owns the engine. A group is what came while the group before it was committed, so groups
grow with the load; messages are acknowledged to the broker after the group is committed, and only
then are requests carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetledger.coordinator import errors
from fleetledger.coordinator.core import inputs, work
from fleetledger.coordinator.core.requests import (
    AnnounceCoordinator,
    AnswerOperator,
    BeatCoordinator,
    ForgetInvitation,
    PruneBlobs,
    Request,
    SendToDevice,
    TakeBack,
    TellOperator,
)
from fleetledger.coordinator.ledger.blobs import BlobStore, prune_held
from fleetledger.coordinator.live.meters import Meters
from fleetledger.coordinator.models.job_runner import JobRunner
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.program.authenticator import Authenticator
from fleetledger.coordinator.program.engine import LedgerEngine, answer_operator
from fleetledger.coordinator.program.file_server import FileServer
from fleetledger.coordinator.program.journal import Journal
from fleetledger.coordinator.program.live_writer import LiveWriter
from fleetledger.coordinator.program.message_reader import MessageReader
from fleetledger.coordinator.program.operator import AnswersCommands
from fleetledger.coordinator.program.payload_intake import PayloadIntake
from fleetledger.coordinator.program.quotas import Quotas
from fleetledger.coordinator.program.receipt_proofs import (
    contradiction,
    with_cohort_proof,
    with_proof,
)
from fleetledger.coordinator.program.refusing_disk import RefusingDisk
from fleetledger.coordinator.program.rivals import Rivals
from fleetledger.coordinator.program.snapshot_keeper import SnapshotKeeper
from fleetledger.coordinator.program.traffic_meters import TrafficMeters
from fleetledger.coordinator.program.watch import CoordinatorWatch, ProblemSource
from fleetledger.coordinator.program.workers.connection import CheckedMessage
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.problems import OpenProblem
from fleetledger.runtime.service_manager import no_beat
from fleetledger.schemas import presence
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortOrder
from fleetledger.schemas.envelope import Sender, encode
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.message import Message
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.schemas.wire import SETTLED
from fleetledger.transport import interface
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.errors import BrokerLimitError, TransportError
from fleetledger.transport.meter import Counts

log = logging.getLogger("coordinator")

GROUP_MESSAGES = 64
TICK_SECONDS = 0.2
BIRTHS_PER_SECOND = 500
"""Births that devices are asked to send at most; one takes less than a millisecond."""
_FEW_SECONDS = 5
"""What would take no longer is not spread."""
_ANNOUNCE_SECONDS = 1.0
"""Between two births of the coordinator, of which every device is told."""
ECHO_SECONDS = 15.0
"""Within which a broker that carries the fleet's messages gives the coordinator its own back."""
OPERATOR_SECONDS = 0.1
_FILES_SECONDS = 30.0
"""Between two attempts to read files that could not be read."""


def births_spread(devices: int) -> int | None:
    """Return over how many seconds so many devices are to spread their births; None for at once."""
    seconds = -(-devices // BIRTHS_PER_SECOND)
    return min(seconds, 3600) if seconds > _FEW_SECONDS else None


class CommandInbox(AnswersCommands, Protocol):
    """Where the operator's commands wait, and their answers go."""

    def waiting(self) -> list[inputs.OperatorCommand]:
        """Return the unanswered commands in their order."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True)
class CoordinatorParts:
    """What the shell is put together from."""

    topics: FleetTopics
    sender: Sender
    connection: interface.Connection
    engine: LedgerEngine
    inbox: CommandInbox
    job_runner: JobRunner
    intake: PayloadIntake
    maker: ModelMaker
    files: FileServer
    store: BlobStore
    invitations: Invitations
    authenticator: Authenticator
    clock: Clock = SYSTEM_CLOCK
    quotas: Quotas = field(default_factory=Quotas)
    meters: Meters = field(default_factory=Meters)
    blocks: Callable[[], Counts] = Counts
    """What the exchange of blocks has carried."""
    by_http: Callable[[], int] = int
    """Returns how many bytes of files have gone by HTTP."""
    live: LiveWriter | None = None
    """Writes down what is known just now, where somebody may want to see it."""
    snapshots: SnapshotKeeper | None = None
    """Has the state kept beside the ledger, so that the next start is quick."""
    problem_sources: Sequence[ProblemSource] = ()
    """What is looked at for problems, beside the shell itself."""


@dataclass
class _Group:
    """Inputs that are committed together."""

    happenings: list[inputs.Input] = field(default_factory=list)
    messages: list[interface.IncomingMessage] = field(default_factory=list)
    small_blobs: dict[Digest, bytes] = field(default_factory=dict)
    since: float = 0.0
    """When the first of it came, by the clock."""
    size: int = 0
    """Entries of the ledger before it."""


class Shell:
    """Runs a coordinator until `stop` is called."""

    def __init__(self, parts: CoordinatorParts) -> None:
        self._parts = parts
        self._reader = MessageReader(parts.topics, parts.authenticator, parts.quotas, parts.clock)
        self._traffic = TrafficMeters(parts.meters)
        self._journal = Journal(parts.clock, parts.engine.core.live)
        parts.engine.on_commit = self._journal.committed
        signer = parts.sender.signer
        self._watch = CoordinatorWatch(parts.clock, [self._problems, *parts.problem_sources])
        self._rivals = Rivals(
            parts.topics.fleet,
            parts.sender.boot,
            None if signer is None else signer.verify_key,
        )
        self._stopping = False
        self._uncommitted: _Group | None = None
        """What the disk refused: a broker does not bring again what was neither acknowledged nor
        disconnected from, so it stays here until it is committed."""
        self._ledger_disk = RefusingDisk(parts.clock)
        self._inbox_disk = RefusingDisk(parts.clock)
        self._broker_fault = ""
        """Why the broker takes no blocks; empty where it does."""
        self.next_tick = 0.0
        """When the rules are told at the earliest that time has passed, by the clock."""
        self._next_operator = 0.0
        self._announces = False
        """Whether a birth of the coordinator waits for its time."""
        self._next_announcement = 0.0
        self._next_files_look = 0.0
        self._compared: dict[DeviceId, presence.SeenCheckpoint] = {}
        """What devices have said of the ledger that they have seen."""

    def start(self) -> None:
        """Subscribe and begin to connect."""
        topics = self._parts.topics
        self._parts.connection.subscribe(*topics.from_every_device("state", "msg"))
        self._parts.connection.subscribe(*topics.from_every_device("hb"), qos=0)
        self._parts.connection.subscribe(topics.coordinator_state)
        self._parts.connection.start()

    def run(self, beat: Callable[[], None] = no_beat) -> None:
        """Serve until `stop`; `beat` is called at every turn."""
        while not self._stopping:
            beat()
            self.step()

    def stop(self) -> None:
        """End `run` soon; may be called from a signal handler."""
        self._stopping = True
        self._parts.connection.wake()

    def say_goodbye(self) -> None:
        """Publish the coordinator's death, so that devices hold back, and leave the broker."""
        self._publish_state(presence.CoordinatorDeath(reason="stopped by its operator"))
        self._parts.connection.stop()
        if self._stopping and self._parts.live is not None:  # else it ends because of an error
            self._parts.live.note(stopped=True, connected=False)
            self._write_live(self._parts.live)
        self._journal.close()

    def step(self, seconds: float = TICK_SECONDS) -> bool:
        """Gather one group, commit it, carry out what it asks for.

        Returns whether it led to anything: entries or requests.
        """
        moved = self._step(seconds)
        if self._parts.live is not None and self._parts.live.is_due():
            self._write_live(self._parts.live)
        if self._parts.snapshots is not None:
            self._parts.snapshots.keep_if_due(self._parts.engine.ledger.size)
        return moved

    def _write_live(self, live: LiveWriter) -> None:
        live.note(problems=self._watch.check())
        engine = self._parts.engine
        waits = engine.core.stages.wait()
        live.note(stage=None if waits is None else waits.shifted(-engine.ahead_ns))
        next_ns = engine.core.models.next_ns(self._parts.clock.time_ns() + engine.ahead_ns)
        live.note(
            next_model_ns=None if next_ns is None else next_ns - engine.ahead_ns,
            waiting_version=engine.core.rollouts.waiting(),
        )
        blocks, by_http = self._parts.blocks(), self._parts.by_http()
        self._traffic.carried(blocks, by_http)
        live.note(files_by_broker=blocks.bytes_up, files_by_http=by_http)
        live.write(engine.core, engine.ledger.size, self._parts.meters, engine.ahead_ns)

    def _problems(self) -> Iterator[OpenProblem]:
        """Yield what this loop itself waits for."""
        for name, text in (
            ("ledger", self._ledger_disk.hindered),
            ("operator", self._inbox_disk.hindered),
            ("coordinator", self._rivals.text),
            ("broker", self._broker_fault),
        ):
            if text:
                yield OpenProblem(name, text, hinders=True, key="waits")
        if self._parts.connection.connected and self._rivals.unheard:
            text = self._rivals.unheard
            yield OpenProblem("access", text, hinders=True, patience=ECHO_SECONDS)

    def _step(self, seconds: float) -> bool:
        if self._uncommitted is None:
            group = self._gather(seconds)
        elif left := self._ledger_disk.seconds_left():
            self._parts.clock.sleep(min(seconds, left))
            return True
        else:
            group = self._uncommitted
        if not group.happenings:
            return False
        group.size = self._parts.engine.ledger.size
        requests = self._committed(group)
        if requests is None:
            return True
        self._journal.heard(group.happenings)
        for message in group.messages:
            self._parts.connection.acknowledge(message)
        self._take_in(
            [item for item in requests if isinstance(item, work.TakePayload)], group.since
        )
        for request in requests:
            self._carry_out(request, group)
        self._answer_operator(requests)
        return bool(requests) or self._parts.engine.ledger.size > group.size

    def _committed(self, group: _Group) -> list[Request] | None:
        """Return what a group asks for once it is on the disk; None while the disk refuses it."""
        engine, began = self._parts.engine, self._parts.clock.seconds()
        try:
            if engine.waits:
                requests = engine.commit()
            else:
                requests = engine.process(group.happenings, group.small_blobs)
        except errors.LedgerWriteError as error:
            waiting = count_of(len(group.happenings), "input")
            consequence = f"held up by it: {waiting}, and all that comes after"
            self._ledger_disk.refused(error, consequence)
            self._uncommitted = group
            return None
        self._ledger_disk.took()
        self._uncommitted = None
        if engine.ledger.size > group.size:
            self._traffic.committed(self._parts.clock.seconds() - began)
            self._traffic.rounds(engine.core.state.rounds.current)
            if self._parts.live is not None:
                self._parts.live.note(committed_ns=self._parts.clock.time_ns())
        return requests

    def _answer_operator(self, requests: Sequence[Request]) -> None:
        try:
            answer_operator(self._parts.inbox, requests)
        except errors.InboxError as error:
            # The command stays in the inbox, and its answer is made again.
            self._inbox_disk.refused(error, "The operator waits for an answer")
        else:
            if any(isinstance(request, AnswerOperator) for request in requests):
                self._inbox_disk.took()

    def _take_in(self, wanted: Sequence[work.TakePayload], since: float) -> None:
        for item in wanted:
            self._traffic.took(item, since)
            if item.contribution.offer is not None:
                self._reader.charge(item.device, item.contribution.payload_bytes)
        self._parts.intake.submit(wanted)

    def _gather(self, seconds: float) -> _Group:
        group = _Group()
        clock = self._parts.clock
        began = clock.seconds()
        event = self._parts.connection.next_event(seconds)
        group.since = clock.seconds()
        while event is not None:
            self._take(event, group)
            if len(group.messages) >= GROUP_MESSAGES or clock.seconds() - began > seconds:
                break
            event = self._parts.connection.next_event(0)
        for finished in self._parts.job_runner.results():
            group.happenings.append(finished.happening)
            self._traffic.worked(finished.happening)
            group.small_blobs.update(finished.small_blobs)
            if isinstance(finished.happening, inputs.PayloadOutcome):
                self._reader.charge_json(finished.happening.device, finished.json_bytes)
        group.happenings.extend(self._commands())
        group.happenings.extend(self._tick())
        return group

    def _note_link(self, reason: str | None) -> None:
        """Note that the broker is connected, or why it is not."""
        if self._parts.live is not None:
            before = self._parts.live.now.disconnected_ns
            since = None if reason is None else before or self._parts.clock.time_ns()
            self._parts.live.note(
                connected=reason is None, connection=reason or "", disconnected_ns=since
            )

    def _take(
        self,
        event: interface.Event,
        group: _Group,
    ) -> None:
        match event:
            case interface.Connected():
                self._broker_fault = ""
                self._journal.broker(event)
                self._note_link(None)
                self._next_announcement = 0.0  # the broker may know of none
                self._rivals.forget()
                self._parts.engine.core.live.beside = ""
                group.happenings.append(inputs.CoordinatorConnected())
            case interface.Subscribed():  # what was said before it may have gone nowhere
                self._announces, self._next_announcement = True, 0.0
            case interface.Disconnected(reason):
                self._journal.broker(event)
                self._note_link(reason)
            case interface.ConnectionProblem(error):
                if isinstance(error, BrokerLimitError):
                    self._broker_fault = str(error)
                elif not self._parts.connection.connected:
                    self._note_link(str(error))
                self._journal.broker(event)
            case interface.IncomingMessage() if event.topic == self._parts.topics.coordinator_state:
                self._hear_rival(event)
            case interface.IncomingMessage():
                self._take_message(event, group)

    def _take_message(self, event: interface.IncomingMessage, group: _Group) -> None:
        happening, within_quota = self._reader.read(event)
        size = len(event.payload)
        self._traffic.came(happening, size, within_quota=within_quota)
        if within_quota:
            group.messages.append(event)
        else:  # nothing of it is committed, and it takes nobody's place in the group
            self._parts.connection.acknowledge(event)
        if happening is not None:
            group.happenings.append(happening)
        if isinstance(happening, inputs.DeviceMessage):
            if isinstance(event, CheckedMessage) and event.verdict is not None:
                self._parts.intake.believe(event.verdict)
            group.happenings.extend(self._doubts(happening))

    def _hear_rival(self, message: interface.IncomingMessage) -> None:
        self._parts.connection.acknowledge(message)
        if self._rivals.observe(message):
            self._answer_rivals()

    def _answer_rivals(self) -> None:
        """Say anew that this coordinator runs, and beside whom."""
        self._parts.engine.core.live.beside = self._rivals.text
        self._announces, self._next_announcement = True, 0.0

    def _doubts(self, message: inputs.DeviceMessage) -> Iterable[inputs.Input]:
        """Compare the ledger with what a device says that it has seen of it, once for each."""
        if message.envelope.header.kind != presence.Birth.kind:
            return
        try:
            seen = message.envelope.read(presence.Birth).seen_checkpoint
        except SchemaError:
            return  # the core says what is wrong with it
        if seen is None or self._compared.get(message.device) == seen:
            return
        self._compared[message.device] = seen
        text = contradiction(self._parts.engine.ledger, seen)
        if text:
            said = about("ledger.doubted", device=message.device)
            log.error("%s: %s", message.device, text, extra=said)
            yield inputs.HistoryDoubted(message.device, text)

    def _commands(self) -> Iterable[inputs.Input]:
        now = self._parts.clock.seconds()
        if now < self._next_operator or self._inbox_disk.seconds_left():
            return []
        self._next_operator = now + OPERATOR_SECONDS
        try:
            commands = self._parts.inbox.waiting()
        except errors.InboxError as error:
            self._inbox_disk.refused(error, "The operator's commands wait")
            return []
        return commands

    def _tick(self) -> Iterable[inputs.Input]:
        now = self._parts.clock.seconds()
        if now < self.next_tick:
            return []
        self.next_tick = now + TICK_SECONDS
        if now >= self._next_files_look:
            self._next_files_look = now + _FILES_SECONDS
            # Births of devices make the core tell them again what could not be offered.
            self._announces = self._parts.files.found_again() or self._announces
        if self._announces:
            self._announce(self._parts.engine.ledger.size)
        return [inputs.Tick()]

    def _carry_out(self, request: Request, group: _Group) -> None:
        parts = self._parts
        match request:
            case SendToDevice():
                self._send(request)
                now = parts.clock.seconds()
                self._traffic.answered(request, size=group.size, since=group.since, now=now)
            case TakeBack(device, leaf):
                topic = parts.topics.down(device, leaf)
                self._publish("other", interface.OutgoingMessage(topic, b"", qos=1, retain=True))
            case AnnounceCoordinator(ledger_size):
                self._announce(ledger_size)
            case BeatCoordinator(ledger_size, corrections):
                time_ns = parts.clock.time_ns()
                beat = presence.CoordinatorHeartbeat(
                    ledger_size=ledger_size, time_ns=time_ns, corrections=corrections
                )
                self._publish_state(beat, retain=False)
            case (
                work.SumCohort()
                | work.SolveHead()
                | work.ExportHead()
                | work.PackImported()
                | work.AverageRound()
                | work.FreezeNetwork()
                | work.PrepareAdapter()
            ):
                parts.job_runner.model_job(lambda: [parts.maker.make(request)])
            case PruneBlobs(digests):
                self._prune(digests)
            case ForgetInvitation(invitation):
                parts.invitations.forget(invitation)
            case TellOperator(text):
                log.error("%s", text, extra=about("operator.told"))
            case AnswerOperator(_, done, text):
                # What was done stands in the entries, which are said as well.
                level = logging.DEBUG if done else logging.WARNING
                said = about("operator.answered", done=done)
                log.log(level, "operator: %s%s", "" if done else "refused: ", text, extra=said)

    def _prune(self, digests: Iterable[Digest]) -> None:
        try:
            prune_held(self._parts.engine.ledger, self._parts.store, digests)
        except (errors.LedgerError, errors.BlobError) as error:
            said = about("bytes.not_deleted")
            log.warning("bytes that nothing needs were not deleted: %s", error, extra=said)

    def _send(self, request: SendToDevice) -> None:
        body = request.body
        try:
            if isinstance(body, Assignment) and body.cohort is not None:
                body = self._of_cohort(body, body.cohort)
            body = self._parts.files.offered(body, request.device)
        except errors.BlobError as error:
            said = about("message.not_sent", device=request.device)
            log.warning("%s: %s is not sent: %s", request.device, body.kind, error, extra=said)
            return
        version = self._version_for(request.device)
        if version is None and body.kind not in SETTLED:
            return  # the device could not read it; once it is led it is told everything
        topic = self._parts.topics.down(request.device, request.leaf)
        if isinstance(body, Receipt):
            live = self._parts.engine.core.live.seen(request.device)
            told = with_proof(body, self._parts.engine.ledger, live.seen_size)
        else:
            told = body.model_dump(mode="json")
        try:
            data = self._parts.sender.write(
                body.kind,
                told,
                topic=topic,
                sent_ms=self._parts.clock.time_ms(),
                refers_to=request.refers_to,
                version=version,
            )
        except EnvelopeError as error:
            log.warning("%s: not sent: %s", request.device, error, extra=about("message.not_sent"))
            return
        self._publish(
            body.kind, interface.OutgoingMessage(topic, data, qos=1, retain=request.retain)
        )

    def _of_cohort(self, body: Assignment, order: CohortOrder) -> Assignment:
        """Add to a cohort's order its proof and the roster; raise `BlobError` without that."""
        engine, root = self._parts.engine, self._parts.engine.core.state.trust.root
        formed = engine.core.state.cohorts.by_number[order.cohort.number].index
        roster = None if root is None else root.document.devices
        if roster is not None:
            order = order.model_copy(update={"roster": self._parts.files.offer_of(roster)})
        body = body.model_copy(update={"cohort": order})
        return with_cohort_proof(body, engine.ledger, formed)

    def _version_for(self, device: DeviceId) -> int | None:
        """Return the version of the wire in which a device is told something; None for none.

        The proxy is of this release, and who is not admitted has told no range.
        """
        spoken = self._parts.sender.wire.range
        known = self._parts.engine.core.state.devices.admitted.get(device)
        return spoken.highest if known is None else spoken.common(known.wire)

    def _announce(self, ledger_size: int) -> None:
        """Publish the coordinator's birth, now or soon: all devices hear each of them."""
        now = self._parts.clock.seconds()
        self._announces = now < self._next_announcement
        if self._announces:
            return
        spread = births_spread(len(self._parts.engine.core.state.devices.admitted))
        self._next_announcement = now + max(_ANNOUNCE_SECONDS, (spread or 0) / 4)
        self._publish_state(
            presence.CoordinatorBirth(
                ledger_size=ledger_size,
                wire=self._parts.sender.wire.range,
                spread_seconds=spread,
                beside=self._rivals.names,
                heard=self._rivals.asked,
            )
        )

    def _publish_state(self, body: Message, *, retain: bool = True) -> None:
        topic = self._parts.topics.coordinator_state
        sent_ms = self._parts.clock.time_ms()
        envelope = self._parts.sender.seal(body, sent_ms=sent_ms, topic=topic)
        if isinstance(body, presence.CoordinatorBirth):
            self._parts.authenticator.born(envelope.message_id)
            self._parts.engine.core.live.announce(envelope.message_id)
        message = interface.OutgoingMessage(topic, encode(envelope), qos=1, retain=retain)
        self._publish(body.kind, message)

    def _publish(self, kind: str, message: interface.OutgoingMessage) -> None:
        self._traffic.went(kind, len(message.payload))
        try:
            self._parts.connection.publish(message)
        except TransportError as error:
            # Receipts are asked for again, retained messages are repeated when connected.
            log.debug("not sent to %s: %s", message.topic, error)

"""The agent's shell: two connections, one worker, one loop.

The loop turns what happens into inputs, lets the store commit what the rules decide, and only then
carries out what they ask for. A message is acknowledged to the broker after the commit.

`run` is the loop of a real agent. Whoever has a loop of their own calls `begin`, then `step` when
something came or `wake_at` says so, and `end`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.records import ActiveModel, OutboxKey
from fleetledger.device_agent.core.requests import (
    AdoptKey,
    CancelFetch,
    CleanFiles,
    FetchFile,
    ReadLocalClock,
    ReferTo,
    Request,
    Say,
    Send,
    SendHealth,
    SendHeartbeat,
    SendOutboxMessage,
    WakeAt,
)
from fleetledger.device_agent.core.session import turn
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.errors import DamagedError, HeldError, StoreError
from fleetledger.device_agent.home.health.reader import HealthReader, TextfileWriter, hindered
from fleetledger.device_agent.home.health.textfile import AgentNumbers
from fleetledger.device_agent.home.memory import resident_bytes
from fleetledger.device_agent.home.status_file import Status, write_status
from fleetledger.device_agent.models.execution.providers import CPU
from fleetledger.device_agent.program.device_jobs import WORK
from fleetledger.device_agent.program.file_urls import HeardUrls
from fleetledger.device_agent.program.journal import AgentJournal
from fleetledger.device_agent.program.parts import AgentParts
from fleetledger.device_agent.program.proxy_blocks import Serving
from fleetledger.device_agent.program.round_traffic import RoundTraffic, asked_round
from fleetledger.device_agent.program.status import is_settled, status_of
from fleetledger.device_agent.program.watch import ProblemWatch
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.service_manager import no_beat
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Death, Heartbeat
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.values import Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.certificates import CertificateWatch
from fleetledger.transport.connection_log import say_connection
from fleetledger.transport.errors import (
    BlockError,
    FullDiskError,
    NotConnectedError,
    QueueFullError,
    TransportError,
)
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    Event,
    IncomingMessage,
)
from fleetledger.transport.meter import Counts

log = logging.getLogger("device_agent")

LONGEST_WAIT_SECONDS = 1.0
STATUS_SECONDS = 2.0
CONDITIONS_SECONDS = 30.0
"""Between two looks at heat and power mode for the status: a program may have to be asked."""
FETCH_SECONDS = 600.0
"""Deadline of one fetch; what has come by then is kept for the next."""
STOP_SECONDS = 5.0


class AgentShell:
    """Runs until `stop` is called."""

    def __init__(self, parts: AgentParts) -> None:
        self.wake_at = 0.0
        """When the rules want to be asked again, by the clock."""
        self._parts = parts
        self._journal = AgentJournal(parts.home.settings.device, parts.clock.seconds)
        self._worker = parts.worker
        self._device = parts.home.settings.device
        self._watch = ProblemWatch(
            self._device, parts.state, parts.worker, parts.exchange, parts.clock
        )
        self._certificates = CertificateWatch(parts.home.certificates, parts.clock)
        self._stopping = False
        self._status_due = 0.0
        self._conditions_due = 0.0
        self._conditions_told = ""
        self._told_news: tuple[bool, ActiveModel | None] = (False, None)
        self._rounds = RoundTraffic()
        self._urls = HeardUrls()
        self._hears_proxy = False
        self._farewell = "ended by an error"
        self._ended = ""
        """Why the agent ended, once it has."""
        self._status_written = True
        self._beat: Callable[[], None] = no_beat
        parts.store.on_held = self._while_held

    def run(self, beat: Callable[[], None] = no_beat) -> None:
        """Connect, serve until `stop`, say goodbye; `beat` is called at every turn."""
        self._beat = beat
        self._worker.start()
        self._parts.exchange.start()
        try:
            self.begin()
            while not self._stopping:
                beat()
                self.step(LONGEST_WAIT_SECONDS)
            self._farewell = self._ended = "stopped"
        except Exception as error:
            self._ended = str(error) or repr(error)
            raise
        finally:
            self.end()

    def begin(self) -> None:
        """Connect, and let the rules know what lies here."""
        parts = self._parts
        parts.control.subscribe(*parts.mail.filters)
        parts.control.start()
        slot = parts.slots.active()
        active = slot.model if slot is not None else None
        third = parts.slots.candidate()
        candidate = third.model if third is not None else None
        self._say_began(active)
        variant = slot.variant if slot is not None else None
        here, now_ns = parts.blobs.digests(), parts.clock.time_ns()
        self._give(inputs.Started(active, here, now_ns, candidate, variant))

    def _say_began(self, active: ActiveModel | None) -> None:
        version = None if active is None else active.version
        runs = "no model yet" if version is None else f"model {version}"
        text = f"the agent of {self._parts.home.folder} runs, with {runs}"
        self._journal.say(logging.INFO, "agent.began", text, version=version)

    def _say_connection(self, event: Connected | Disconnected) -> None:
        say_connection(self._journal.events, event, self._device)

    def stop(self) -> None:
        """End `run` soon; from any thread, or from a signal handler."""
        self._stopping = True
        self._parts.control.wake()

    def wake(self) -> None:
        """Have `run` take another turn, and call its `beat`, soon; from any thread."""
        self._parts.control.wake()

    def evaluate_again(self) -> None:
        """Have the active model evaluated; from any thread, or from a signal handler."""
        self._worker.put(inputs.EvaluationAsked())

    def traffic(self) -> Counts:
        """Return what both connections have carried since the start."""
        parts = self._parts
        carried = parts.control.meter.total() + parts.exchange.traffic()
        return carried + parts.proxy.traffic() if parts.proxy is not None else carried

    def step(self, seconds: float) -> bool:
        """Take in what comes within `seconds` and what is due; return whether there was any."""
        clock = self._parts.clock
        wait = min(seconds, max(0.0, self.wake_at - clock.seconds()))
        event = self._parts.control.next_event(wait)
        if event is not None:
            self._take(event)
        finished = self._worker.collect()
        for happened in finished:
            self._give(happened)
        ticked = clock.seconds() >= self.wake_at
        if ticked:
            self._give(inputs.Ticked())
        if clock.seconds() >= self._status_due or self._news() != self._told_news:
            self._write_status()
        textfile, reader = self._parts.textfile, self._parts.health
        if textfile is not None and reader is not None and textfile.is_due(clock.seconds()):
            self._write_textfile(textfile, reader)
        return event is not None or bool(finished) or ticked

    def _while_held(self, why: str) -> None:
        """Say why nothing moves while another program holds the database."""
        if self._stopping:
            raise HeldError(why)
        self._beat()
        self._watch.held = why
        if self._parts.clock.seconds() >= self._status_due:
            self._write_status()

    def _take(self, event: Event) -> None:
        match event:
            case Connected(session_present):
                self._watch.connected()
                self._say_connection(event)
                self._give(inputs.AgentConnected(forgotten=not session_present))
            case Disconnected(reason):
                self._watch.away = reason
                self._say_connection(event)
                self._give(inputs.AgentDisconnected())
            case ConnectionProblem(error):
                self._watch.note_connection(error)
            case IncomingMessage():
                self._take_message(event)

    def _take_message(self, message: IncomingMessage) -> None:
        try:
            happened = self._parts.mail.read(message)
        except SchemaError as error:
            self._watch.note(str(error))
            happened = None
        if happened is not None:
            happened = self._urls.noted(happened)
            if isinstance(happened, inputs.DesiredArrived):
                happened = replace(happened, time_ns=self._parts.clock.time_ns())
            self._give(happened)
        # Also what cannot be read is acknowledged: it would be no more readable the next time.
        self._parts.control.acknowledge(message)

    def _give(self, event: inputs.Input) -> None:
        parts, journal = self._parts, self._journal

        def commit(records: AgentRecords, changes: tuple[Durable, ...]) -> None:
            parts.store.commit(records, changes)
            self._watch.held = ""
            journal.wrote(changes)

        journal.begin(parts.state)
        for request in turn(parts.state, event, parts.clock.seconds(), commit):
            self._carry_out(request)
            journal.asked(request)
        journal.end(parts.state, event)
        if isinstance(event, inputs.Started | inputs.Assigned):
            self._rounds.turn_to(asked_round(parts.state), self.traffic())

    def _carry_out(self, request: Request) -> None:
        match request:
            case WakeAt(moment):
                self.wake_at = moment
            case FetchFile():
                self._fetch(request)
            case CancelFetch(digest):
                self._parts.exchange.cancel(digest)
            case CleanFiles(keep):
                self._clean(keep)
            case ReferTo(birth, version):
                self._parts.mail.refer_to(birth, version)
            case AdoptKey():
                assert self._parts.keys is not None, "only who has a key asks for one"
                self._parts.keys.adopt()
            case ReadLocalClock():
                minute = self._parts.minute_of_day(self._parts.clock.time_ns())
                self._worker.put(inputs.LocalClockRead(minute))
            case Say():
                pass  # the journal says it, unless it is a problem that is told as well
            case _ if isinstance(request, WORK):
                self._worker.submit(request)
            case _:
                try:
                    self._send(request)
                except (NotConnectedError, QueueFullError) as error:
                    # The rules send it again: messages and births by time, reports when welcomed.
                    log.debug("not sent: %s", error)
                except TransportError as error:
                    self._watch.note(str(error))

    def _send(self, request: Request) -> None:
        mail = self._parts.mail
        match request:
            case Send(leaf, body, retain):
                mail.send(leaf, body, retain=retain)
            case SendOutboxMessage(message, Contribution() as body):
                self._send_payload(message, body, self._parts.exchange)
            case SendOutboxMessage(message, PrototypeGradients() as body):
                if self._parts.proxy is None:
                    self._watch.note("gradients: there is no way to a proxy from here")
                    return
                if not self._hears_proxy:
                    mail.subscribe_to_proxy()
                    self._hears_proxy = True
                self._send_payload(message, body, self._parts.proxy)
            case SendOutboxMessage(_, body):
                mail.send("msg", body)
            case SendHeartbeat():
                mail.send("hb", self._heartbeat(request))
            case SendHealth() if self._parts.health is not None:
                mail.send("hb", self._health(self._parts.health))

    def _health(self, reader: HealthReader) -> DeviceHealth:
        jobs = self._parts.jobs
        left = jobs.left if jobs.provider == CPU else ()
        problems = hindered(self._watch.book.current, left, self._parts.clock.time_ns())
        return reader.health(jobs.provider, jobs.inferences, problems)

    def _conditions(self) -> str:
        reader = self._parts.health
        if reader is not None and self._parts.clock.seconds() >= self._conditions_due:
            self._conditions_due = self._parts.clock.seconds() + CONDITIONS_SECONDS
            self._conditions_told = reader.machine.conditions().described
        return self._conditions_told

    def _write_textfile(self, textfile: TextfileWriter, reader: HealthReader) -> None:
        state = self._parts.state
        numbers = AgentNumbers(
            health=self._health(reader),
            inferences=self._parts.jobs.inferences,
            outbox=len(state.records.outbox),
            version=state.models.active.version if state.models.active else None,
        )
        textfile.write(numbers, self._parts.clock.seconds())

    def _heartbeat(self, request: SendHeartbeat) -> Heartbeat:
        traffic = self.traffic()
        return Heartbeat(
            welcomed=request.welcomed,
            assignment_action=request.assignment_action,
            desired_action=request.desired_action,
            held=request.held,
            outbox_length=request.outbox_length,
            waiting_images=request.waiting_images,
            seen_size=request.seen_size,
            resident_bytes=resident_bytes(),
            bytes_up=traffic.bytes_up,
            bytes_down=traffic.bytes_down,
        )

    def _send_payload(
        self, message: OutboxKey, body: Contribution | PrototypeGradients, to: Serving
    ) -> None:
        if body.offer is not None and not self._serve_file(body.offer, to):
            return

        def serve(source: BlockSource) -> None:
            if to.source(source.offer.digest) is None:
                to.serve(source)

        self._parts.mail.send_payload(body, self._parts.store.payload(message), serve)

    def _serve_file(self, offer: Offer, to: Serving) -> bool:
        """Serve a payload of the blob folder; False if it is lost, and the rules must know."""
        if to.source(offer.digest) is not None:
            return True
        try:
            to.serve(self._parts.blobs.source(offer))
        except DamagedError as error:
            self._watch.note(str(error))
            self._worker.put(inputs.FileDamaged(offer.digest))
            return False
        return True

    def _fetch(self, request: FetchFile) -> None:
        digest, worker = request.offer.digest, self._worker
        path = self._parts.blobs.path(digest)
        device = self._parts.home.settings.device

        def finished(future: Future[Path]) -> None:
            error = future.exception()
            if error is None:
                worker.put(inputs.FetchFinished(digest))
            else:
                full = isinstance(error, FullDiskError)
                worker.put(inputs.FetchFailed(digest, str(error), full_disk=full))

        try:
            future = self._parts.exchange.fetch(
                request.offer, path, device, seconds=FETCH_SECONDS, url=self._urls.of(digest)
            )
        except BlockError as error:
            worker.put(inputs.FetchFailed(digest, str(error)))
        else:
            future.add_done_callback(finished)

    def _clean(self, keep: frozenset[Digest]) -> None:
        self._parts.exchange.withdraw_all_but(keep)
        if self._parts.proxy is not None:
            self._parts.proxy.withdraw_all_but(keep)
        left = self._parts.blobs.clean(keep | self._parts.slots.digests())
        self._worker.put(inputs.FilesListed(left))

    def _news(self) -> tuple[bool, ActiveModel | None]:
        """Return what is told at once: whether everything is done, and which model runs."""
        state = self._parts.state
        return is_settled(state), state.models.active

    def status(self) -> Status:
        """Return how the agent is now; on the thread of `run` alone. Raises `StoreError`."""
        book, conditions = self._watch.book, self._conditions()
        return status_of(self._parts, book, self.traffic(), self._rounds, conditions, self._ended)

    def _write_status(self) -> None:
        self._status_due = self._parts.clock.seconds() + STATUS_SECONDS
        if self._parts.status_file is not None or self._parts.health is not None:
            self._watch.check(self._certificates.problems())
        self._told_news = self._news()
        if self._parts.status_file is None:
            return
        try:
            write_status(self._parts.status_file, self.status())
        except (OSError, StoreError) as error:
            if self._status_written:
                said = about("status.not_written", device=self._device)
                log.warning("no status from now on: %s", error, extra=said)
            self._status_written = False
        else:
            self._status_written = True

    def end(self) -> None:
        """Say goodbye and close everything."""
        parts = self._parts
        try:
            parts.mail.send("state", Death(reason=self._farewell), retain=True)
        except TransportError as error:
            log.debug("no goodbye: %s", error)
        parts.control.stop()
        parts.exchange.stop()
        if parts.proxy is not None:
            parts.proxy.stop()
        self._worker.stop(STOP_SECONDS)
        self._journal.close(self._ended or self._farewell)
        self._write_status()
        parts.store.close()

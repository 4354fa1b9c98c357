"""A process that takes its share of what devices send, checks it, and hands it on.

It acknowledges to the broker what the coordinator has committed, and nothing else: where it is
killed, what it had in hand is as if it had not come, and devices send it again. It ends with the
coordinator, of whatever that dies.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from fleetledger.coordinator.models import payload_check
from fleetledger.coordinator.program.broker import mqtt_settings
from fleetledger.coordinator.program.workers import frames
from fleetledger.coordinator.program.workers.frames import CheckedBy, DeviceKey, FromWorker
from fleetledger.coordinator.settings import load
from fleetledger.learning.numerics.blas import numpy_on_one_thread
from fleetledger.runtime.errors import FleetledgerError, SchemaError
from fleetledger.runtime.log_lines import LogFormat, LogLevel, about
from fleetledger.runtime.log_setup import logging_on
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import Envelope, decode, split
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.seals import read_seal
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport import interface
from fleetledger.transport.mqtt import MqttConnection


@dataclass(frozen=True)
class _Method:
    name: str
    settings: Mapping[str, Any]
    digest: Digest
    check: payload_check.PayloadCheck


class Checking:
    """Checks messages by the keys and the settings that it was told; one thread uses it.

    All of it is a function of the message, a key and a method's settings, and holds whoever has
    found it. The coordinator says whether that key is the device's, whether those settings count,
    and what is wrong with a message: what a worker cannot vouch for goes on as it came.
    """

    def __init__(self, topics: FleetTopics) -> None:
        self._topics = topics
        self._keys: dict[DeviceId, VerifyKey] = {}
        self._methods: dict[Digest, _Method] = {}

    def learn(self, word: DeviceKey | CheckedBy) -> None:
        """Check from now on by this key, or by these settings; of lineages the newest counts."""
        if isinstance(word, DeviceKey):
            self._keys[word.device] = word.key
        else:
            digest = payload_check.settings_digest(word.method, word.settings)
            check = payload_check.PayloadCheck()
            with suppress(FleetledgerError):  # the check itself says what is wrong
                check.load(word.method, word.settings)
            self._methods = {word.lineage: _Method(word.method, word.settings, digest, check)}

    def know(self, keys: Mapping[DeviceId, VerifyKey]) -> None:
        """Check from now on by these keys."""
        self._keys.update(keys)

    def found(self, message: FromWorker) -> FromWorker:
        """Return a message with what there is to say of it."""
        try:
            device = self._topics.parse(message.topic).device
            key = self._keys.get(device)
            if key is None:
                return message
            line, _ = split(message.payload)
            read_seal(line).check_signature(key, message.topic)
            envelope = decode(message.payload)
        except SchemaError:
            return message
        payload = envelope.line + b"\n" + envelope.attachment
        return replace(message, payload=payload, key=key, verdict=self._verdict(envelope))

    def _verdict(self, envelope: Envelope) -> payload_check.PayloadVerdict | None:
        """Have the method check what is attached to a contribution that answers no round."""
        header = envelope.header
        attached = header.attachment_digest
        if attached is None or header.kind != Contribution.kind:
            return None
        if header.body.get("round") or header.body.get("cohort"):
            return None
        method = self._methods.get(header.body.get("lineage", ""))
        if method is None or header.body.get("method") != method.name:
            return None
        try:
            samples = method.check(method.name, method.settings, envelope.attachment)
        except FleetledgerError as error:
            return payload_check.PayloadVerdict(attached, method.digest, {}, str(error))
        return payload_check.PayloadVerdict(attached, method.digest, samples)


log = logging.getLogger("coordinator.intake")

GROUP = "intake"
"""Name of the group among whose members the broker deals out messages."""
_TURN_SECONDS = 1.0
WORD_SECONDS = 5.0
"""Between two words of a worker that it takes its turns."""


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker has to know."""

    home: Path
    number: int
    filters: tuple[str, ...]
    """What its group subscribes."""
    log_format: LogFormat | None = None
    log_level: LogLevel | None = None


class IntakeWorker:
    """Between a connection and a pipe."""

    def __init__(self, connection: interface.Connection, pipe: Pipe, checking: Checking) -> None:
        self._connection = connection
        self._pipe = pipe
        self._checking = checking
        self._lessons: SimpleQueue[frames.DeviceKey | frames.CheckedBy] = SimpleQueue()
        self._in_hand: dict[int, interface.IncomingMessage] = {}
        """What is not committed yet, as far as this process knows."""
        self._next = 0
        self._wanted: frozenset[str] = frozenset()
        """Filters that the broker has not said to serve in this connection."""
        self._filters: frozenset[str] = frozenset()
        self._away = "it was not connected yet"
        """Why the broker deals no messages out to it."""
        self._next_word = 0.0
        self._ended = threading.Event()

    def run(self, *filters: str) -> None:
        """Serve until the coordinator closes the pipe."""
        threading.Thread(target=self._listen, name="told", daemon=True).start()
        self._filters = frozenset(f"$share/{GROUP}/{wanted}" for wanted in filters)
        self._connection.subscribe(*self._filters)
        self._connection.start()
        with suppress(BrokenPipeError, ConnectionResetError):
            while not self._ended.is_set():
                self._turn()
        self._connection.stop()

    def _turn(self) -> None:
        event = self._connection.next_event(_TURN_SECONDS)
        with suppress(Empty):
            while True:
                self._checking.learn(self._lessons.get_nowait())
        if isinstance(event, interface.IncomingMessage):
            self._hand_on(event)
        elif isinstance(event, interface.Connected):
            self._wanted = self._filters
            self._tell("the broker has not said that it serves its subscription")
        elif isinstance(event, interface.Subscribed):
            self._wanted -= frozenset(event.filters)
            if not self._wanted:
                self._tell("")
        elif isinstance(event, interface.Disconnected):
            self._tell(event.reason)
        elif isinstance(event, interface.ConnectionProblem):
            if not self._connection.connected:
                self._away = str(event.error)
            said = about("intake.connection")
            log.warning("intake worker: %s", event.error, extra=said)

        if time.monotonic() >= self._next_word:
            self._next_word = time.monotonic() + WORD_SECONDS
            self._pipe.send_bytes(frames.frame_of(frames.WorkerTurn(self._away)))

    def _tell(self, away: str) -> None:
        """Say with this turn why it hears nothing; empty where it does."""
        self._away, self._next_word = away, 0.0

    def _hand_on(self, message: interface.IncomingMessage) -> None:
        number, self._next = self._next, self._next + 1
        self._in_hand[number] = message
        found = self._checking.found(frames.FromWorker(number, message.topic, message.payload))
        self._pipe.send_bytes(frames.frame_of(found))

    def _listen(self) -> None:
        """Take in what the coordinator says (a thread of its own)."""
        try:
            while True:
                word = frames.read_told(self._pipe.recv_bytes())
                if isinstance(word, frames.Committed):
                    for number in word.numbers:
                        message = self._in_hand.pop(number, None)
                        if message is not None:
                            self._connection.acknowledge(message)
                else:
                    self._lessons.put(word)
        except (EOFError, OSError):
            self._ended.set()
            self._connection.wake()


def work(
    plan: WorkerPlan,
    pipe: Pipe,
    keys: Mapping[DeviceId, VerifyKey],
    method: CheckedBy | None,
) -> None:
    """Be a worker: what the process does from its start to its end.

    It knows keys and method before it subscribes, so nothing comes that it cannot check.
    """
    # A terminal interrupts all of its programs; the coordinator says goodbye, and then this ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = load(plan.home)
    # Payloads are small: a second thread of NumPy's only takes the time of other processes.
    with logging_on(plan.log_format, plan.log_level), numpy_on_one_thread():
        role = f"intake-{plan.number}"
        # A session that is kept gets its share while nobody reads it, and Mosquitto 2.0 counts what
        # a killed worker had in hand against the next one, until it gives that one nothing at all.
        to_broker = replace(
            mqtt_settings(plan.home, settings, role=role),
            keeps_session=False,
            tells_subscriptions=True,
        )
        checking = Checking(FleetTopics(settings.fleet))
        checking.know(keys)
        if method is not None:
            checking.learn(method)
        IntakeWorker(MqttConnection(to_broker), pipe, checking).run(*plan.filters)

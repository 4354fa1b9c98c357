"""Runs a coordinator over MQTT: the program behind `fleetledger coordinator serve`."""

from __future__ import annotations

import gc
import logging
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.coordinator import assembly
from fleetledger.coordinator.errors import LedgerLockedError
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.program.broker import mqtt_settings
from fleetledger.coordinator.program.file_hosting import hosted_urls
from fleetledger.coordinator.program.shell import Shell
from fleetledger.coordinator.program.webhook import Webhook
from fleetledger.coordinator.program.workers.connection import SHARED_LEAVES
from fleetledger.coordinator.program.workers.worker import WorkerPlan
from fleetledger.coordinator.settings import CoordinatorSettings, load
from fleetledger.runtime.home_identity import remember
from fleetledger.runtime.log_lines import LogFormat, LogLevel, about
from fleetledger.runtime.log_setup import logging_on
from fleetledger.runtime.private_file import keep_private
from fleetledger.runtime.service_manager import ServiceManager
from fleetledger.schemas.topics import FleetTopics
from fleetledger.transport.clock import SYSTEM_CLOCK
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection

if TYPE_CHECKING:
    from fleetledger.coordinator.proxy.program import Embedded
import threading

from fleetledger.runtime.log_lines import LogEvent
from fleetledger.runtime.log_setup import EventLog
from fleetledger.transport.access import BROKER_LOG, PasswordMisuse
from fleetledger.transport.brokers.log_watch import LogWatch
from fleetledger.transport.clock import Clock
from fleetledger.transport.errors import ThreadEndedError
from fleetledger.transport.interface import IncomingMessage

_WAIT_SECONDS = 1.0


class BrokerWatch:
    """Takes Mosquitto's log on a connection of its own, where a flood of it delays nothing else.

    A broker that keeps its log to itself is heard of nothing.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._watch = LogWatch()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-watch", daemon=True)

    def start(self) -> None:
        """Begin to connect and to listen."""
        self._connection.subscribe(BROKER_LOG, qos=0)
        self._connection.start()
        self._thread.start()

    def stop(self) -> None:
        """End both."""
        self._stopping.set()
        self._connection.wake()
        self._thread.join()
        self._connection.stop()

    def found(self, now_ns: int) -> tuple[PasswordMisuse, ...]:
        """Return users of whom something was seen within a day."""
        with self._lock:
            return self._watch.found(now_ns)

    def _run(self) -> None:
        events = EventLog("coordinator.broker", self._clock.seconds)
        while not self._stopping.is_set():
            try:
                event = self._connection.next_event(_WAIT_SECONDS)
            except ThreadEndedError:
                return  # its own thread has said why, and the coordinator needs no watch
            if not isinstance(event, IncomingMessage):
                continue
            line = event.payload.decode("utf-8", "replace")
            with self._lock:
                first = self._watch.read(line, self._clock.time_ns())
            if first is not None:
                said = LogEvent("broker.password_misused", first.user)
                text = f"{first.sentence}: its password may be stolen, or a copy of it runs"
                events.emit(logging.WARNING, said, text)


log = logging.getLogger("coordinator")
LOCKED_SECONDS = 5.0
"""How long it waits at its start for a command that has the ledger: one that found no coordinator
and is carried out by itself."""
_LOOK_SECONDS = 0.05


def serve(
    home: Path,
    log_format: LogFormat | None = None,
    log_level: LogLevel | None = None,
    intake: int | None = None,
) -> None:
    """Serve the fleet of `home` until SIGINT or SIGTERM.

    `intake` is the number of intake workers, where another one than the settings say is wanted.
    """
    settings = load(home)
    if intake is not None:
        settings = settings.model_copy(update={"intake_workers": intake})
    with ExitStack() as stack:
        stack.enter_context(logging_on(log_format, log_level))
        remember(home, home / FILE_NAME, {"fleet": str(settings.fleet)})
        could_be_read = keep_private(home)
        if could_be_read:
            log.warning("%s", could_be_read, extra=about("home.was_open"))
        workers = worker_plans(home, settings, log_format, log_level)
        watch = BrokerWatch(mqtt_connect(home, settings)("watch", None), SYSTEM_CLOCK)
        coordinator = assemble_when_free(home, settings, workers, watch)
        stack.callback(coordinator.close)
        shell = coordinator.shell
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: shell.stop())
        # What was read from the ledger stays: to look through it for garbage, again and again,
        # takes a second of a large fleet's coordinator each time.
        gc.collect()
        gc.freeze()
        coordinator.start()
        watch.start()
        stack.callback(watch.stop)
        stack.callback(shell.say_goodbye)
        if settings.webhook is not None:
            webhook = Webhook(home, settings.fleet, settings.webhook)
            webhook.start()
            stack.callback(webhook.stop)
        if settings.proxy is not None:
            stack.callback(start_proxy(home / settings.proxy.home, shell).stop)
        began = about("coordinator.began", fleet=settings.fleet, home=str(home))
        log.info("serving fleet %s from %s", settings.fleet, home, extra=began)
        shell.run(ServiceManager.take().beat)
        log.info("stopped", extra=about("coordinator.ended"))


def worker_plans(
    home: Path,
    settings: CoordinatorSettings,
    log_format: LogFormat | None = None,
    log_level: LogLevel | None = None,
) -> tuple[WorkerPlan, ...]:
    """Return what the intake workers are to do."""
    filters = FleetTopics(settings.fleet).from_every_device(*SHARED_LEAVES)
    return tuple(
        WorkerPlan(home, number, filters, log_format, log_level)
        for number in range(settings.intake_workers)
    )


def assemble_when_free(
    home: Path,
    settings: CoordinatorSettings,
    workers: Sequence[WorkerPlan] = (),
    watch: BrokerWatch | None = None,
) -> assembly.AssembledCoordinator:
    """Put the coordinator together once its ledger is free; raise what `assemble` raises."""
    around = assembly.CoordinatorSurroundings(
        mqtt_connect(home, settings), workers=workers, hosted=hosted_urls
    )
    if watch is not None:
        around = replace(around, misused=watch.found)
    deadline = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            return assembly.assemble(home, around)
        except LedgerLockedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def start_proxy(home: Path, shell: Shell) -> Embedded:
    """Start the proxy that lives in `home` in this process; an error of its ends the shell too."""
    from fleetledger.coordinator.proxy.program import Embedded  # noqa: PLC0415 - most coordinators have none

    said = about("proxy.began", home=str(home))
    log.info("the proxy of %s runs here: this process can read its gradients", home, extra=said)
    return Embedded(home, shell.stop)


def mqtt_connect(home: Path, settings: CoordinatorSettings) -> assembly.Connect:
    """Return what makes MQTT connections; they raise what `mqtt_settings` raises."""

    def connect(role: str, will: OutgoingMessage | None) -> Connection:
        to_broker = mqtt_settings(home, settings, role=role)
        shares = role == "control" and settings.intake_workers > 0
        return MqttConnection(replace(to_broker, tells_subscriptions=shares), will=will)

    return connect

"""Puts a coordinator together and runs it: the program behind `fleetledger coordinator serve`."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.engine import Engine
from coordinator.file_server import FileServer
from coordinator.gate import Gate
from coordinator.intake_desk import IntakeDesk
from coordinator.invitations import Invitations
from coordinator.keys import coordinator_key, signer_of_notes
from coordinator.ledger.blobs import Blobs, BlobStore
from coordinator.model_maker import ModelMaker, check_payload
from coordinator.operator import OperatorInbox
from coordinator.paths import blob_folder
from coordinator.quotas import Quotas
from coordinator.release_key import release_signer
from coordinator.settings import CoordinatorSettings, load, read_password, rules_of_serving
from coordinator.shell import Inbox, Parts, Shell
from coordinator.time_sentences import CALENDAR_TOLERANCE_NS, entries_ahead
from coordinator.workshop import Workplace, Workshop
from schemas.envelope import Sender, encode
from schemas.presence import CoordinatorDeath
from schemas.topics import FleetTopics
from schemas.values import BootId
from transport.clock import SYSTEM_CLOCK, Clock, steady_time
from transport.interface import Connection, Outgoing
from transport.mqtt import MqttConnection
from transport.mqtt_settings import MqttSettings
from transport.tls import find_tls
from transport.transfer import BlockExchange

if TYPE_CHECKING:
    from coordinator.proxy.running import Embedded

log = logging.getLogger("coordinator")


@dataclass(frozen=True)
class Surroundings:
    """What a coordinator runs on: its two connections, its workers, its operator, its clock."""

    sender: Sender
    control: Connection
    exchange: BlockExchange
    workshop: Workplace
    inbox: Inbox
    clock: Clock = SYSTEM_CLOCK


def serve(home: Path) -> None:
    """Serve the fleet of `home` until SIGINT or SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    settings = load(home)
    with ExitStack() as stack:
        shell = assemble(home, settings, stack)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: shell.stop())
        shell.start()
        stack.callback(shell.say_goodbye)
        if settings.proxy is not None:
            stack.callback(start_proxy(home / settings.proxy.home, shell).stop)
        log.info("serving fleet %s from %s", settings.fleet, home)
        shell.run()


def start_proxy(home: Path, shell: Shell) -> Embedded:
    """Start the proxy that lives in `home` in this process; an error of its ends the shell too."""
    from coordinator.proxy.running import Embedded  # noqa: PLC0415 - most coordinators have none

    log.info("the proxy of %s runs here: this process can read its gradients", home)
    return Embedded(home, shell.stop)


def assemble(home: Path, settings: CoordinatorSettings, stack: ExitStack) -> Shell:
    """Put the parts together; what must be closed is put on `stack`."""
    key = coordinator_key(home, settings.fleet)
    signer = signer_of_notes(key, settings.fleet)
    engine = Engine.open(
        home,
        rules_of_serving(settings),
        clock=steady_time(),
        calendar=SYSTEM_CLOCK.time_ns,
        sign_note=signer,
        sign_release=release_signer(home, settings),
    )
    stack.callback(engine.close)
    _warn_of_calendar(engine)
    inbox = OperatorInbox(home)
    stack.callback(inbox.close)
    topics = FleetTopics(settings.fleet)
    # Blocks are named by their digests in what is signed here, and need no signature.
    sender = Sender(settings.fleet, settings.broker.username, BootId.fresh(), signer=key)
    control = _connection(mqtt_settings(home, settings, role="control"), topics, sender)
    exchange = BlockExchange(
        MqttConnection(mqtt_settings(home, settings, role="data")),
        topics,
        Sender(settings.fleet, settings.broker.username, BootId.fresh()),
    )
    workshop = Workshop(control.wake)
    exchange.on_failure = workshop.fail
    exchange.start()
    stack.callback(exchange.stop)
    stack.callback(workshop.stop)
    around = Surroundings(sender, control, exchange, workshop, inbox)
    return Shell(parts_of(home, settings, engine, around))


def _warn_of_calendar(engine: Engine) -> None:
    """Say in the log that entries are ahead of the calendar, and what to do about it."""
    if engine.ahead_ns > CALENDAR_TOLERANCE_NS:
        log.warning("%s", entries_ahead(engine.ahead_ns))


def parts_of(
    home: Path, settings: CoordinatorSettings, engine: Engine, around: Surroundings
) -> Parts:
    """Return the parts of a coordinator that lives in `home`, on given surroundings."""
    store = BlobStore(settings.blobs or blob_folder(home))
    incoming = home / "incoming"
    maker = ModelMaker(home, store)
    topics, invitations = FleetTopics(settings.fleet), Invitations(home)
    return Parts(
        topics=topics,
        sender=around.sender,
        connection=around.control,
        engine=engine,
        inbox=around.inbox,
        workshop=around.workshop,
        desk=IntakeDesk(
            around.exchange, around.workshop, store, incoming, check_payload, maker.networks.check
        ),
        maker=maker,
        files=FileServer(around.exchange, lambda: Blobs(engine.ledger, store)),
        store=store,
        invitations=invitations,
        gate=Gate(
            topics,
            lambda: engine.core.state,
            invitations.secret,
            require_keys=settings.security.require_keys,
        ),
        clock=around.clock,
        quotas=Quotas(settings.intake),
    )


def _connection(settings: MqttSettings, topics: FleetTopics, sender: Sender) -> MqttConnection:
    topic = topics.coordinator_state
    death = sender.seal(CoordinatorDeath(), sent_ms=0, topic=topic)
    will = Outgoing(topic, encode(death), qos=1, retain=True)
    return MqttConnection(settings, will=will)


def mqtt_settings(home: Path, settings: CoordinatorSettings, *, role: str) -> MqttSettings:
    """Return how the coordinator connects.

    Raises `SettingsError` for a wrong password file, and `TlsError` for wrong certificates.
    """
    password = read_password(home, settings)
    return MqttSettings(
        client_id=f"{settings.broker.username}.{role}",
        host=settings.broker.host,
        port=settings.broker.port,
        user=settings.broker.username if password is not None else None,
        password=password,
        tls=find_tls(settings.broker.tls, home, settings.broker.username),
    )

"""Putting an agent together: settings, store and connections become a running shell."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import psutil

from device_agent.bench import Bench
from device_agent.core.records import Enrolling
from device_agent.core.state import Identity, Rules, State, Trust
from device_agent.home import AgentHome, lock_home
from device_agent.keys import KeyRing
from device_agent.mail import Mail, Signing, make_will
from device_agent.memory import frugal_allocation
from device_agent.pinning import check_taken, pinned_of
from device_agent.proxy_blocks import ProxyBlocks
from device_agent.settings import AgentSettings, DetectionSettings
from device_agent.shell import Agent, Parts
from device_agent.slots import Slots
from device_agent.store.blobs import BlobFolder, make_folder
from device_agent.store.store import Store
from device_agent.worker import WorkerThread
from learning.numerics.detection import DetectionRules
from schemas.envelope import Sender
from schemas.presence import Capabilities
from schemas.topics import FleetTopics
from schemas.values import BootId
from transport.interface import Connection, Outgoing
from transport.meter import Counts
from transport.mqtt import MqttConnection
from transport.mqtt_settings import MqttSettings
from transport.tls import find_tls
from transport.transfer import BlockExchange

OPTIONAL_FEATURES = ("numpy", "onnxruntime", "torch")
"""Packages whose presence decides which phases of which methods can run here."""

Connect = Callable[[str, "Outgoing | None"], Connection]
"""Makes the connection of a role (`control`, `data` or `proxy`), with its will."""


def run_agent(folder: Path) -> None:
    """Run the agent whose home is `folder` until SIGTERM or SIGINT.

    Raises `SettingsError`, `HomeError` or `StoreError` when it cannot start.
    """
    frugal_allocation()
    home = AgentHome.open(folder)
    lock = lock_home(folder)
    try:
        agent = build_agent(home, mqtt_connect(home))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        signal.signal(signal.SIGUSR1, lambda *_: agent.evaluate_again())
        agent.run()
    finally:
        os.close(lock)


def build_agent(home: AgentHome, connect: Connect, rules: Rules | None = None) -> Agent:
    """Return an agent over connections that `connect` makes; raise `StoreError`."""
    settings = home.settings
    make_folder(home.state_folder)
    # Features and exemplars tell of images.
    home.state_folder.chmod(0o700)
    store = Store(home.state_folder / "agent.db")
    boot = BootId.fresh()
    formers = store.begin_run(boot)
    identity = Identity(store.installation, boot, find_capabilities(), formers)
    state = State(rules or rules_of(home), identity, store.load())
    check_taken(state.rules.pinned, state.records)
    topics = FleetTopics(settings.fleet)
    keys = KeyRing.beside(home.folder, settings.fleet, settings.device)
    state.enrolling = Enrolling(keys.asks, first=keys.current is None)
    # The will may be told long after a key that waits has come to count.
    sender = Sender(settings.fleet, settings.device, identity.boot, signer=keys.newest)
    control = connect("control", make_will(topics, settings.device, sender))
    exchange = BlockExchange(
        connect("data", None),
        topics,
        # A sender is for one thread, so that of the blocks has its own.
        Sender(settings.fleet, settings.device, identity.boot),
        device=settings.device,
    )
    proxy = ProxyBlocks(
        lambda: _begun_exchange(connect("proxy", None), settings, identity.boot, worker.fail)
    )
    blobs, slots = BlobFolder(home.state_folder / "blobs"), Slots(home.state_folder / "slots")

    def traffic() -> Counts:
        return control.meter.total() + exchange.traffic() + proxy.traffic()

    bench = Bench(home, blobs, slots, traffic)
    worker = WorkerThread(bench.answer, control.wake)
    exchange.on_failure = worker.fail
    return Agent(
        Parts(
            home=home,
            state=state,
            store=store,
            blobs=blobs,
            slots=slots,
            control=control,
            exchange=exchange,
            mail=Mail(
                control,
                topics,
                settings.device,
                sender,
                signing=Signing(keys.signer_for, settings.coordinator_key),
            ),
            bench=bench,
            worker=worker,
            status_file=home.status_file,
            proxy=proxy,
            keys=keys,
        )
    )


def _begun_exchange(
    connection: Connection,
    settings: AgentSettings,
    boot: BootId,
    on_failure: Callable[[Exception], None],
) -> BlockExchange:
    """Return the exchange with the proxy, at work."""
    exchange = BlockExchange(
        connection,
        FleetTopics(settings.fleet, "proxy"),
        Sender(settings.fleet, settings.device, boot),
        device=settings.device,
    )
    exchange.on_failure = on_failure
    exchange.start()
    return exchange


def rules_of(home: AgentHome) -> Rules:
    """Return the settings by which the rules decide."""
    return Rules(
        scan_seconds=home.settings.data.scan_seconds,
        deadline_seconds=home.settings.model.deadline_hours * 3600,
        evaluates=home.evaluation_folder is not None,
        detection=detection_of(home.settings.detection),
        publish_features=home.settings.policy.publish_features,
        publish_gradients=home.settings.policy.publish_gradients,
        publish_images=home.settings.policy.publish_images,
        samples=home.settings.data.samples,
        trust=trust_of(home.settings),
        pinned=pinned_of(home),
        silent_seconds=home.settings.trust.silent_hours * 3600,
    )


def trust_of(settings: AgentSettings) -> Trust | None:
    """Return whom this device believes about the ledger; None where it asks for no proof."""
    if settings.coordinator_key is None:
        return None
    return Trust(settings.fleet, settings.device, settings.coordinator_key)


def detection_of(settings: DetectionSettings) -> DetectionRules | None:
    """Return when a batch of new images is a transition; None where nobody looks."""
    if settings.mode == "off":
        return None
    return DetectionRules(
        mode=settings.mode,
        min_images=settings.min_images,
        deviations=settings.deviations,
        rise_nats=settings.rise_nats,
    )


def mqtt_connect(home: AgentHome) -> Connect:
    """Return what makes MQTT connections.

    Raises `SettingsError` for a wrong password file, and `TlsError` for wrong certificates.
    """
    settings, password = home.settings, home.password()
    tls = find_tls(settings.broker.tls, home.folder, settings.device)

    def connect(role: str, will: Outgoing | None) -> Connection:
        return MqttConnection(
            MqttSettings(
                client_id=f"{settings.device}.{role}",
                host=settings.broker.host,
                port=settings.broker.port,
                user=settings.device,
                password=password,
                tls=tls,
            ),
            will,
        )

    return connect


def find_capabilities() -> Capabilities:
    """Say what this device can run, without importing it."""
    return Capabilities(
        agent_version=agent_version(),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        features=frozenset(name for name in OPTIONAL_FEATURES if find_spec(name) is not None),
        memory_mib=int(psutil.virtual_memory().total) >> 20,
    )


def agent_version() -> str:
    """Return the installed version, or `source` where the program runs from its folder."""
    from importlib.metadata import (  # noqa: PLC0415 - a megabyte, needed once
        PackageNotFoundError,
        version,
    )

    try:
        return version("fleetledger")
    except PackageNotFoundError:
        return "source"


def set_up_logging() -> None:
    """Log to standard error, where a service manager expects it."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s: %(message)s"
    )

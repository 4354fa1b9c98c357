"""Program of a proxy, alone or inside the coordinator's process."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fleetledger.coordinator.errors import LedgerLockedError, ProxyError
from fleetledger.coordinator.ledger.lock import WriterLock
from fleetledger.coordinator.proxy.core import ProxyCore
from fleetledger.coordinator.proxy.gradients import ProxyLimits
from fleetledger.coordinator.proxy.mail import ProxyMail
from fleetledger.coordinator.proxy.scoring_worker import ScoringThread, ScoringWorker
from fleetledger.coordinator.proxy.settings import (
    FILE_NAME,
    MEGABYTE,
    ProxyHomeSettings,
    load,
    password_file,
)
from fleetledger.coordinator.proxy.shell import ProxyParts, ProxyProgram
from fleetledger.coordinator.proxy.store import ProxyStore
from fleetledger.schemas.envelope import PROXY, Sender
from fleetledger.schemas.home_identity import remember
from fleetledger.schemas.log_lines import LogFormat, LogLevel, about
from fleetledger.schemas.log_setup import logging_on
from fleetledger.schemas.pip_command import pip_install
from fleetledger.schemas.private_file import keep_private
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.interface import Connection
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.tls import find_tls
from fleetledger.transport.transfer import BlockExchange, Exchange

log = logging.getLogger("coordinator.proxy")

Connect = Callable[[str], Connection]
"""Makes the connection of a role: `control`, `data` or `branch`."""


@dataclass(frozen=True)
class ProxySurroundings:
    """What a proxy runs on: its connections, whoever does its work, its clock."""

    sender: Sender
    control: Connection
    ordinary: Exchange
    branch: Exchange
    scoring: ScoringWorker
    clock: Clock = SYSTEM_CLOCK


def serve(
    home: Path, log_format: LogFormat | None = None, log_level: LogLevel | None = None
) -> None:
    """Run the proxy of `home` until SIGINT or SIGTERM; raise `ProxyError` or `SettingsError`."""
    settings = load(home)
    lock = lock_home(home)
    with ExitStack() as stack:
        stack.callback(lock.release)
        stack.enter_context(logging_on(log_format, log_level))
        proxy = build(home, settings, mqtt_connect(home, settings))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: proxy.stop())
        began = about("proxy.began", fleet=settings.fleet, home=str(home))
        log.info("proxy of fleet %s from %s", settings.fleet, home, extra=began)
        proxy.run()


class Embedded:
    """A proxy on a thread of this process, with connections of its own."""

    def __init__(self, home: Path, on_end: Callable[[], None]) -> None:
        """Begin; `on_end` is called where it ends by an error. Raises as `serve` does."""
        settings = load(home)
        self._lock = lock_home(home)
        self._on_end = on_end
        self._error: BaseException | None = None
        self._made = threading.Event()
        self._proxy: ProxyProgram | None = None
        self._thread = threading.Thread(
            target=self._run, args=(home, settings), name="proxy", daemon=True
        )
        self._thread.start()
        self._made.wait()
        if self._proxy is None:
            self.stop()

    def stop(self) -> None:
        """End the proxy; raise what it ended by, if that was an error."""
        if self._proxy is not None:
            self._proxy.stop()
        self._thread.join()
        self._lock.release()
        if self._error is not None:
            raise self._error

    def _run(self, home: Path, settings: ProxyHomeSettings) -> None:
        try:
            # The store is for one thread, so all is made in the one that runs it.
            self._proxy = build(home, settings, mqtt_connect(home, settings))
            self._made.set()
            self._proxy.run()
        except Exception as error:  # noqa: BLE001 - raised again by `stop`
            self._error = error
            self._made.set()
            self._on_end()


def lock_home(home: Path) -> WriterLock:
    """Check that a proxy can run here, and take its folder; raise `ProxyError`."""
    if find_spec("torch") is None:
        raise ProxyError(
            f"torch: not installed, and a proxy computes with it; {pip_install('train')}"
        )
    # Pictures lie here that nobody else should see.
    keep_private(home)
    try:
        return WriterLock(home / "lock")
    except LedgerLockedError as error:
        raise ProxyError(f"{home}: another proxy runs here; stop it first") from error


def build(home: Path, settings: ProxyHomeSettings, connect: Connect) -> ProxyProgram:
    """Return a proxy over connections that `connect` makes; raise `ProxyError`."""
    boot, fleet = BootId.fresh(), settings.fleet
    remember(home, home / FILE_NAME, {"fleet": str(fleet)})
    # A sender is for one thread, so each exchange has its own.
    senders = (Sender(fleet, PROXY, boot) for _ in range(3))
    control = connect("control")
    scoring = ScoringThread(control.wake)
    ordinary = BlockExchange(connect("data"), FleetTopics(fleet), next(senders), device=PROXY)
    branch = BlockExchange(connect("branch"), FleetTopics(fleet, "proxy"), next(senders))
    ordinary.on_failure = branch.on_failure = scoring.fail
    around = ProxySurroundings(
        sender=next(senders),
        control=control,
        ordinary=ordinary,
        branch=branch,
        scoring=scoring,
    )
    return proxy_of(home, settings, around)


def proxy_of(home: Path, settings: ProxyHomeSettings, around: ProxySurroundings) -> ProxyProgram:
    """Return the proxy that lives in `home`, on given surroundings; raise `ProxyError`."""
    store = ProxyStore(home / "proxy.db")
    incoming = home / "incoming"
    # Nothing in it outlives the run that fetched it: devices and coordinator offer it again.
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    limits = settings.limits
    rules = ProxyLimits(
        payload_bytes=round(limits.payload_megabytes * MEGABYTE),
        waiting_bytes=round(limits.waiting_megabytes * MEGABYTE),
    )
    return ProxyProgram(
        ProxyParts(
            core=ProxyCore(rules, store.load()),
            store=store,
            mail=ProxyMail(settings.fleet, around.sender, around.clock),
            control=around.control,
            ordinary=around.ordinary,
            branch=around.branch,
            scoring=around.scoring,
            incoming=incoming,
            device=settings.device,
            clock=around.clock,
        )
    )


def mqtt_connect(home: Path, settings: ProxyHomeSettings) -> Connect:
    """Return what makes MQTT connections.

    Raises `SettingsError` for a wrong password file, and `TlsError` for wrong certificates.
    """
    password = password_file(home, settings)
    tls = find_tls(settings.broker.tls, home, PROXY)

    def connect(role: str) -> Connection:
        return MqttConnection(
            MqttSettings(
                client_id=fresh_client_id(PROXY, role),
                host=settings.broker.host,
                port=settings.broker.port,
                user=str(PROXY) if password is not None else None,
                password=password,
                tls=tls,
            )
        )

    return connect

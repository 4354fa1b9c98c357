"""Program of a proxy, alone or inside the coordinator's process."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fleetledger.coordinator.errors import LedgerLockedError, ProxyError
from fleetledger.coordinator.ledger.lock import WriterLock
from fleetledger.coordinator.proxy.decision import Input
from fleetledger.coordinator.proxy.settings import FILE_NAME, ProxyHomeSettings, load
from fleetledger.coordinator.proxy.shell import ProxyProgram, ProxySurroundings
from fleetledger.runtime.home_identity import remember
from fleetledger.runtime.log_lines import LogFormat, LogLevel, about
from fleetledger.runtime.log_setup import logging_on
from fleetledger.runtime.pip_command import pip_install
from fleetledger.runtime.private_file import keep_private
from fleetledger.schemas.envelope import PROXY, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId
from fleetledger.transport.interface import Connection
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import settings_by_role
from fleetledger.transport.results import JobQueue
from fleetledger.transport.transfer import BlockExchange

log = logging.getLogger("coordinator.proxy")

Connect = Callable[[str], Connection]
"""Makes the connection of a role: `control`, `data` or `branch`."""


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
        self._made: Future[ProxyProgram] = Future()

        def run() -> None:
            try:
                # The store is for one thread, so all is made in the one that runs it.
                self._made.set_result(build(home, settings, mqtt_connect(home, settings)))
                self._made.result().run()
            except Exception:  # `stop` raises it again
                on_end()
                raise

        self._ran = ThreadPoolExecutor(1, "proxy").submit(run)
        either: list[Future[Any]] = [self._made, self._ran]
        wait(either, return_when=FIRST_COMPLETED)
        if not self._made.done():
            self.stop()

    def stop(self) -> None:
        """End the proxy; raise what it ended by, if that was an error."""
        if self._made.done():
            self._made.result().stop()
        wait([self._ran])
        self._lock.release()
        self._ran.result()


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
    scoring: JobQueue[Input] = JobQueue(control.wake, "scoring")
    ordinary = BlockExchange(connect("data"), FleetTopics(fleet), next(senders), device=PROXY)
    branch = BlockExchange(connect("branch"), FleetTopics(fleet, "proxy"), next(senders))
    ordinary.on_failure = branch.on_failure = scoring.fail
    around = ProxySurroundings(next(senders), control, ordinary, branch, scoring)
    return ProxyProgram(home, settings, around)


def mqtt_connect(home: Path, settings: ProxyHomeSettings) -> Connect:
    """Return what makes MQTT connections; raises what `settings_by_role` raises."""
    role_settings = settings_by_role(settings.broker, home, PROXY)
    return lambda role: MqttConnection(role_settings(role))

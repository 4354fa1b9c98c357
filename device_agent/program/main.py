"""Program of an agent: over MQTT, until somebody stops it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fleetledger.device_agent.home.home import AgentHome, lock_home
from fleetledger.device_agent.home.memory import frugal_allocation, keep_loaded
from fleetledger.device_agent.program.assembly import AgentSurroundings, Connect, assemble
from fleetledger.device_agent.program.parts import AgentParts
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.runtime.home_identity import remember
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.private_file import OWNER_AND_GROUP, only_for_us, restrict
from fleetledger.runtime.service_manager import ServiceManager
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import settings_by_role

log = logging.getLogger(__name__)


def run_agent(folder: Path) -> None:
    """Run the agent whose home is `folder` until SIGTERM or SIGINT.

    Raises `SettingsError`, `HomeError` or `StoreError` when it cannot start.
    """
    frugal_allocation()
    only_for_us()
    with agent_in(folder, over_mqtt) as (agent, _):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        signal.signal(signal.SIGUSR1, lambda *_: agent.evaluate_again())
        keep_loaded()
        agent.run(ServiceManager.take().beat)


@contextmanager
def agent_in(
    folder: Path, around: Callable[[AgentHome], AgentSurroundings]
) -> Iterator[tuple[AgentShell, AgentParts]]:
    """Lock a home and put its agent together, which does not run yet; nothing else changes.

    Raises as `run_agent` does.
    """
    home = AgentHome.open(folder)
    lock = lock_home(folder)
    try:
        could_be_read = restrict(folder, OWNER_AND_GROUP)
        if could_be_read:
            log.warning("%s", could_be_read, extra=about("home.was_open"))
        names = {"device": str(home.settings.device), "fleet": str(home.settings.fleet)}
        remember(home.state_folder, home.settings_file, names)
        made = assemble(home, around(home))
        yield made.agent, made.parts
    finally:
        os.close(lock)


def over_mqtt(home: AgentHome) -> AgentSurroundings:
    """Return the surroundings of a real agent; raise as `mqtt_connect` does."""
    return AgentSurroundings(mqtt_connect(home))


def mqtt_connect(home: AgentHome) -> Connect:
    """Return what makes MQTT connections.

    Raises `SettingsError` for a wrong password file, and `TlsError` for wrong certificates.
    """
    device = home.settings.device
    settings = settings_by_role(home.settings.broker, home.folder, device)

    def connect(role: str, will: OutgoingMessage | None) -> Connection:
        # A broker without passwords tells devices apart by their user names.
        return MqttConnection(replace(settings(role), user=device), will)

    return connect

"""Program of an agent: over MQTT, until somebody stops it."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import replace
from pathlib import Path

from fleetledger.device_agent.home.home import AgentHome, lock_home
from fleetledger.device_agent.home.memory import frugal_allocation, keep_loaded
from fleetledger.device_agent.program.assembly import AgentSurroundings, Connect, assemble
from fleetledger.runtime.home_identity import remember
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.private_file import OWNER_AND_GROUP, keep_private
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
    home = AgentHome.open(folder)
    lock = lock_home(folder)
    could_be_read = keep_private(folder, OWNER_AND_GROUP)
    if could_be_read:
        log.warning("%s", could_be_read, extra=about("home.was_open"))
    try:
        names = {"device": str(home.settings.device), "fleet": str(home.settings.fleet)}
        remember(home.state_folder, home.settings_file, names)
        agent = assemble(home, AgentSurroundings(mqtt_connect(home))).agent
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        signal.signal(signal.SIGUSR1, lambda *_: agent.evaluate_again())
        keep_loaded()
        agent.run(ServiceManager.take().beat)
    finally:
        os.close(lock)


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

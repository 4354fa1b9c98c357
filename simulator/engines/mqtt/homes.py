"""Homes of coordinator, proxy and agents: settings files, secrets, devices, the backbone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import tomli_w

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.program.command_client import Meanwhile, carried_out
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.proxy import settings as proxy
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    write_new,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.device_agent.home.home import SETTINGS_FILE, AgentHome
from fleetledger.device_agent.settings import AgentBrokerSettings, AgentSettings
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.paths import make_folders
from fleetledger.transport.brokers import Broker

PASSWORD_FILE = Path("broker.password")


def coordinator_broker(broker: Broker) -> CoordinatorBrokerSettings:
    """Return where the coordinator finds its broker and its secret."""
    return CoordinatorBrokerSettings(
        host=broker.host, port=broker.port, password_file=PASSWORD_FILE
    )


def agent_broker(broker: Broker) -> AgentBrokerSettings:
    """Return where an agent finds its broker and its secret."""
    return AgentBrokerSettings(host=broker.host, port=broker.port, password_file=PASSWORD_FILE)


def write_coordinator(home: Path, broker: Broker, settings: CoordinatorSettings) -> None:
    """Write the coordinator's settings and secret, in place of earlier ones."""
    write_password(home, broker, "coordinator")
    (home / FILE_NAME).unlink(missing_ok=True)
    write_new(home, settings)


def write_proxy(home: Path, broker: Broker, settings: proxy.ProxyHomeSettings) -> None:
    """Write a proxy's settings and secret, in place of earlier ones."""
    write_password(home, broker, PROXY)
    (home / proxy.FILE_NAME).unlink(missing_ok=True)
    access = proxy.ProxyBrokerSettings(
        host=broker.host, port=broker.port, password_file=PASSWORD_FILE
    )
    proxy.write_new(home, settings.model_copy(update={"broker": access}))


def admit(home: Path, devices: Iterable[DeviceId], meanwhile: Meanwhile) -> None:
    """Admit devices, by the coordinator that runs; `meanwhile` is as in `carried_out`.

    Commands are carried out in their order, so the answer to the last one is enough.
    """
    commands = [AdmitDevice(device=device) for device in devices]
    with closing(OperatorInbox(home)) as inbox:
        for command in commands[:-1]:
            inbox.submit(command)
    for command in commands[-1:]:
        carried_out(home, command, alone=False, meanwhile=meanwhile)


def carry_out(home: Path, command: Command) -> None:
    """Have the operator's command carried out; raise `CommandError` if it is refused."""
    carried_out(home, command)


def write_agent(home: Path, broker: Broker, settings: AgentSettings) -> None:
    """Write an agent's settings and secret, in place of earlier ones, and make its data folder."""
    write_password(home, broker, settings.device)
    (home / SETTINGS_FILE).write_text(settings_text(settings), encoding="utf-8")
    make_folders(AgentHome(home, settings).data_folder, settings.data.kind)


def settings_text(settings: AgentSettings) -> str:
    """Return the text of an agent's settings file."""
    return tomli_w.dumps(settings.model_dump(mode="json", exclude_none=True))


def write_password(home: Path, broker: Broker, user: str) -> None:
    """Write a user's broker secret into its home, readable by the owner alone."""
    home.mkdir(parents=True, exist_ok=True)
    write_private(home / PASSWORD_FILE, f"{broker.credentials(user)[1]}\n".encode())

"""Brokers that run as child processes: Mosquitto where it is installed, else amqtt.

The broker is outside of what the fleet trusts with its data: whatever it loses is sent again, and
what it is not allowed to see does not go through it. A child broker listens on loopback only,
unless told otherwise, and never lets anybody in without a password.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from fleetledger.runtime.pip_command import pip_install
from fleetledger.transport.brokers.child import ChildBroker as Broker
from fleetledger.transport.brokers.embedded import EmbeddedBroker
from fleetledger.transport.brokers.mosquitto import MosquittoBroker, find_mosquitto
from fleetledger.transport.errors import BrokerStartError

__all__ = ["Broker", "EmbeddedBroker", "MosquittoBroker", "find_mosquitto", "start_child_broker"]


def start_child_broker(
    directory: Path,
    users: Iterable[str],
    prefer: Literal["mosquitto", "amqtt"] | None = None,
) -> Broker:
    """Start a broker with its files in `directory`, for these devices and the coordinator.

    Takes Mosquitto if it is found and amqtt otherwise; `prefer` insists on one of them. Raises
    `BrokerStartError` that names what to install when neither is there.
    """
    broker = _choose(prefer)(directory, users)
    broker.start()
    return broker


def _choose(prefer: Literal["mosquitto", "amqtt"] | None) -> type[Broker]:
    if prefer != "amqtt" and find_mosquitto() is not None:
        return MosquittoBroker
    if prefer != "mosquitto" and EmbeddedBroker.is_installed():
        return EmbeddedBroker
    raise BrokerStartError(
        f"no broker found ({prefer or 'mosquitto or amqtt'}): install Mosquitto "
        f"(`apt install mosquitto`) or the Python broker (`{pip_install('broker')}`)"
    )

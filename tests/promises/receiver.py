"""The receiving end of a download as a process: the agent's block exchange, to be killed.

python -m tests.promises.receiver PLAN     (a JSON file, see `Plan`)
"""

from __future__ import annotations

import sys
from pathlib import Path

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.transfer import BlockExchange

PATIENCE = 600.0


class Plan(Strict):
    """What to fetch, where from and where to."""

    fleet: FleetId
    device: DeviceId
    port: int
    password: str
    offer: Offer
    destination: Path


def fetch(plan: Plan) -> Path:
    """Fetch what is offered, with whatever an earlier run has left."""
    connection = MqttConnection(
        MqttSettings(
            client_id=f"{plan.device}.data",
            port=plan.port,
            user=plan.device,
            password=plan.password,
            reconnect_shortest_seconds=0.05,
            reconnect_longest_seconds=0.5,
        )
    )
    sender = Sender(plan.fleet, plan.device, BootId.fresh())
    exchange = BlockExchange(connection, FleetTopics(plan.fleet), sender, device=plan.device)
    exchange.start()
    try:
        future = exchange.fetch(plan.offer, plan.destination, plan.device, seconds=PATIENCE)
        return future.result()
    finally:
        exchange.stop()


if __name__ == "__main__":
    fetch(Plan.model_validate_json(Path(sys.argv[1]).read_bytes()))

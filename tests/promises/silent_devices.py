"""What devices that offer payloads and send no block of them cost the others, over a real broker.

    python -m tests.promises.silent_devices

The coordinator's block exchange fetches 236 KB from each of nine devices, five times one after the
other, beside no, one and five devices that offer four payloads each and never answer. The longest
and the 95th percentile of the seconds that a payload took are printed.
"""

from __future__ import annotations

import math
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.brokers import Broker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.transfer import BlockExchange
from tests.promises.brokers import DefaultMosquitto

PAYLOAD_BYTES = 236_000
DEVICES = 9
TIMES = 5
OFFERS = 4
PATIENCE = 300.0


HONEST = [DeviceId(f"honest-{number}") for number in range(DEVICES)]


def p95(seconds: Sequence[float]) -> float:
    """Return the 95th percentile."""
    ordered = sorted(seconds)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


@contextmanager
def _exchange(
    broker: Broker, topics: FleetTopics, device: DeviceId | None
) -> Iterator[BlockExchange]:
    user = COORDINATOR if device is None else device
    settings = MqttSettings(
        client_id=f"{user}.data",
        port=broker.port,
        user=user,
        password=broker.credentials(user)[1],
    )
    sender = Sender(topics.fleet, user, BootId.fresh())
    made = BlockExchange(MqttConnection(settings), topics, sender, device=device)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def measure(broker: Broker, silent: int, times: int = TIMES) -> list[float]:
    """Return the seconds of each payload of the honest devices beside so many silent ones."""
    topics = FleetTopics(FleetId(f"silent-{secrets.token_hex(3)}"))
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder, _exchange(broker, topics, None) as coordinator:
        for number, offer in product(range(silent), range(OFFERS)):
            coordinator.fetch(
                BlockSource(secrets.token_bytes(PAYLOAD_BYTES)).offer,
                Path(folder) / f"silent-{number}-{offer}",
                DeviceId(f"silent-{number}"),
                seconds=PATIENCE,
            )
        for name in HONEST:
            with _exchange(broker, topics, name) as device:
                for index in range(times + 1):
                    offer = device.serve(secrets.token_bytes(PAYLOAD_BYTES))
                    path = Path(folder) / f"{name}-{index}"
                    began = time.monotonic()
                    coordinator.fetch(offer, path, name, seconds=PATIENCE).result(PATIENCE)
                    if index:  # the first one waits for the device's connection, too
                        seconds.append(time.monotonic() - began)
    return seconds


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        broker = DefaultMosquitto(Path(folder), HONEST)
        broker.start()
        try:
            measure(broker, 0)
            for silent in (0, 1, 5):
                seconds = measure(broker, silent)
                text = (
                    f"{silent} silent devices: p95 {p95(seconds) * 1e3:.0f} ms, longest "
                    f"{max(seconds) * 1e3:.0f} ms, {len(seconds)} payloads"
                )
                sys.stdout.write(text + "\n")
        finally:
            broker.stop()


if __name__ == "__main__":
    main()

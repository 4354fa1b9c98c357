"""Measure how fast devices connect to Mosquitto, and a model's way to many of them at once.

    connect  so many users, one connection each, from the first CONNECT to the last CONNACK
    blocks   a model to so many devices by block exchange, each with a connection of its own
    bare     as many bytes in blocks of the same size from a bare paho publisher to as many bare
             subscribers, QoS 0, on the same broker: the floor

`blocks` and `bare` take turns. All ends run on one machine, so its processors are what is measured;
the processor time of this process stands beside.

    python -m benchmarks.fleet_scale.run [--devices 200] [--receivers 20] [--megabytes 10]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contribution_rate.fleet import Fleet
from benchmarks.machine import describe_machine
from benchmarks.transport_rate.raw import Peer, bare_client
from schemas.envelope import COORDINATOR, Sender
from schemas.offers import DEFAULT_BLOCK_SIZE
from schemas.topics import FleetTopics
from schemas.values import BootId, DeviceId, FleetId
from transport.brokers import MosquittoBroker
from transport.mqtt import MqttConnection
from transport.mqtt_settings import MqttSettings
from transport.transfer import BlockExchange

RESULTS = Path(__file__).resolve().parents[1] / "results" / "fleet_scale.json"
TOPICS = FleetTopics(FleetId("scale"))
PATIENCE = 120.0


@dataclass(frozen=True)
class Measured:
    """One run: seconds of the clock, and of this process's processor time."""

    seconds: float
    processor_seconds: float


def timed(work: Callable[[], None]) -> Measured:
    """Do `work` and measure it."""
    began, spent = time.perf_counter(), time.process_time()
    work()
    return Measured(time.perf_counter() - began, time.process_time() - spent)


def connect(broker: MosquittoBroker, names: Sequence[DeviceId]) -> Measured:
    """Connect a client for each name, and wait for every CONNACK."""
    made: list[Fleet] = []
    peers = [Peer(*broker.credentials(name)) for name in names]
    measured = timed(lambda: made.append(Fleet(broker.host, broker.port, peers)))
    made[0].close()
    return measured


def exchange_of(broker: MosquittoBroker, name: DeviceId, device: DeviceId | None) -> BlockExchange:
    """Return a started exchange that is connected."""
    user, password = broker.credentials(name)
    settings = MqttSettings(
        client_id=f"{name}.data", host=broker.host, port=broker.port, user=user, password=password
    )
    sender = Sender(TOPICS.fleet, name, BootId.fresh())
    exchange = BlockExchange(MqttConnection(settings), TOPICS, sender, device=device)
    exchange.start()
    exchange.connection.wait_connected(PATIENCE)
    return exchange


def fetch_all(
    broker: MosquittoBroker, names: Sequence[DeviceId], model: bytes, folder: Path
) -> Measured:
    """Let every device fetch the model at once."""
    serving = exchange_of(broker, DeviceId(COORDINATOR), None)
    devices = {name: exchange_of(broker, name, name) for name in names}
    offer = serving.serve(model)

    def work() -> None:
        futures = [
            exchange.fetch(offer, folder / name, name, seconds=PATIENCE)
            for name, exchange in devices.items()
        ]
        for future in futures:
            future.result(PATIENCE)

    try:
        return timed(work)
    finally:
        for exchange in (serving, *devices.values()):
            exchange.stop()


def publish_all(broker: MosquittoBroker, names: Sequence[DeviceId], size: int) -> Measured:
    """Send every bare subscriber as many bytes in blocks, each on its own topic."""
    counts, done = dict.fromkeys(names, 0), threading.Semaphore(0)
    subscribers = []
    blocks = -(-size // DEFAULT_BLOCK_SIZE)

    def heard(name: DeviceId) -> None:
        counts[name] += 1
        if counts[name] == blocks:
            done.release()

    for name in names:
        peer = Peer(*broker.credentials(name))
        client = bare_client(broker.host, broker.port, peer, f"{name}.bare")
        subscribed = threading.Event()
        client.on_subscribe = lambda *_, event=subscribed: event.set()
        client.on_message = lambda *_, name=name: heard(name)
        client.subscribe(str(TOPICS.down(name, "blk")), qos=0)
        subscribed.wait(PATIENCE)
        subscribers.append(client)
    peer = Peer(*broker.credentials(COORDINATOR))
    publisher = bare_client(broker.host, broker.port, peer, "coordinator.bare")
    block = bytes(DEFAULT_BLOCK_SIZE)

    def work() -> None:
        for _ in range(blocks):
            for name in names:
                publisher.publish(str(TOPICS.down(name, "blk")), block, qos=0)
            while publisher.want_write():
                time.sleep(0.0005)
        for _ in names:
            if not done.acquire(timeout=PATIENCE):
                raise TimeoutError("blocks were lost; the rate would be wrong")

    try:
        return timed(work)
    finally:
        for client in (publisher, *subscribers):
            client.disconnect()
            client.loop_stop()


def measure(given: argparse.Namespace) -> dict[str, object]:
    """Run all rounds; return what is written down."""
    names = [DeviceId(f"device-{number:03}") for number in range(given.devices)]
    size = given.megabytes * 1_000_000
    model = random.Random(1).randbytes(size)
    connects, fetched, floor = [], [], []
    with (
        tempfile.TemporaryDirectory(dir=Path()) as scratch,
        MosquittoBroker(Path(scratch) / "broker", names) as broker,
    ):
        receivers = names[: given.receivers]
        for number in range(given.rounds):
            connects.append(connect(broker, names))
            fetched.append(fetch_all(broker, receivers, model, Path(scratch) / str(number)))
            floor.append(publish_all(broker, receivers, size))
            print(connects[-1], fetched[-1], floor[-1], file=sys.stderr)
        machine = describe_machine("paho-mqtt") | {"mosquitto": broker.version}
    total = size * given.receivers
    return {
        "command": f"python -m benchmarks.fleet_scale.run {' '.join(sys.argv[1:])}".strip(),
        "machine": machine,
        "connections": given.devices,
        "connect_seconds": spread([one.seconds for one in connects]),
        "receivers": given.receivers,
        "model_bytes": size,
        "blocks_bytes_per_second": spread([total / one.seconds for one in fetched]),
        "blocks_processor_seconds": spread([one.processor_seconds for one in fetched]),
        "bare_bytes_per_second": spread([total / one.seconds for one in floor]),
        "bare_processor_seconds": spread([one.processor_seconds for one in floor]),
        "blocks_to_bare": spread(
            [low.seconds / one.seconds for one, low in zip(fetched, floor, strict=True)]
        ),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median and range, to three significant places."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.3g}") for name, value in numbers.items()}


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--receivers", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    text = json.dumps(measure(given), indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

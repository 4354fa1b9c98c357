"""Measure our connection and our block transfer against bare paho on the same Mosquitto.

Claims: the connection (manual acknowledgement, bounded queues, meter) carries messages at a stated
share of bare paho's rate; a block transfer (envelopes, three hashes per block, a file) moves bytes
at a stated share of bare paho's rate for messages of the same size.

    python -m benchmarks.speed.transport_rate.run [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import platform
import secrets
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks import RESULTS_FOLDER
from benchmarks.speed.transport_rate.raw import Load, Peer, bare_rate
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.errors import QueueFullError
from fleetledger.transport.interface import Connected, IncomingMessage, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.transfer import BlockExchange

RESULTS = RESULTS_FOLDER / "transport_rate.json"
DEVICE, COORDINATOR = DeviceId("bench"), DeviceId("coordinator")
TOPICS = FleetTopics(FleetId("bench"))
TRANSFER_BYTES = 32 * 1024 * 1024


def connection(broker: MosquittoBroker, user: str) -> MqttConnection:
    """Return a connection of ours, not yet started."""
    name, password = broker.credentials(user)
    return MqttConnection(
        MqttSettings(
            client_id=f"{user}.{secrets.token_hex(4)}",
            port=broker.port,
            user=name,
            password=password,
        )
    )


def our_rate(broker: MosquittoBroker, load: Load) -> float:
    """Return messages per second over two of our connections, each acknowledged by hand."""
    topic = TOPICS.up(DEVICE, "msg")
    publisher, subscriber = connection(broker, DEVICE), connection(broker, COORDINATOR)
    subscriber.subscribe(topic, qos=load.qos)
    for one in (publisher, subscriber):
        one.start()
        one.wait_connected(10)
    time.sleep(0.2)
    while not isinstance(subscriber.next_event(1), Connected):
        pass
    message = OutgoingMessage(topic, bytes(load.size), load.qos)
    began, sent, received = time.perf_counter(), 0, 0
    while received < load.count:
        while sent < load.count and sent - received < load.window:
            try:
                publisher.publish(message)
            except QueueFullError:
                break
            sent += 1
        event = subscriber.next_event(10)
        if isinstance(event, IncomingMessage):
            subscriber.acknowledge(event)
            received += 1
    rate = load.count / (time.perf_counter() - began)
    publisher.stop()
    subscriber.stop()
    return rate


def transfer_rate(broker: MosquittoBroker) -> float:
    """Return bytes per second of one block transfer to a file."""
    source, target = (
        BlockExchange(
            connection(broker, name),
            TOPICS,
            Sender(TOPICS.fleet, name, BootId.fresh()),
            device=DEVICE if name == DEVICE else None,
        )
        for name in (DEVICE, COORDINATOR)
    )
    for exchange in (source, target):
        exchange.start()
        exchange.connection.wait_connected(10)
    time.sleep(0.2)
    with tempfile.TemporaryDirectory() as folder:
        offer = source.serve(secrets.token_bytes(TRANSFER_BYTES))
        began = time.perf_counter()
        target.fetch(offer, Path(folder) / "data", DEVICE, seconds=120).result()
        elapsed = time.perf_counter() - began
    source.stop()
    target.stop()
    return TRANSFER_BYTES / elapsed


def measure(rounds: int) -> dict[str, object]:
    """Return medians and ratios; the sides take turns in every round."""
    small, large = Load(5_000, 1024), Load(2_000, 65_536, qos=0, window=64)
    rates: dict[str, list[float]] = {"bare": [], "ours": [], "bare_bytes": [], "blocks": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        MosquittoBroker(Path(folder), [DEVICE]) as broker,
    ):
        sides = (Peer(*broker.credentials(DEVICE)), Peer(*broker.credentials(COORDINATOR)))
        topic = TOPICS.up(DEVICE, "msg")
        for _ in range(rounds):
            rates["bare"].append(bare_rate(broker.host, broker.port, sides, topic, small))
            rates["ours"].append(our_rate(broker, small))
            bare = bare_rate(broker.host, broker.port, sides, topic, large)
            rates["bare_bytes"].append(bare * large.size)
            rates["blocks"].append(transfer_rate(broker))
        middle = {name: statistics.median(values) for name, values in rates.items()}
        return {
            "command": f"python -m benchmarks.speed.transport_rate.run --rounds {rounds}",
            "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
            "versions": {
                "python": platform.python_version(),
                "paho-mqtt": version("paho-mqtt"),
                "mosquitto": broker.version,
            },
            "n": rounds,
            "messages_per_second_1_KiB_QoS_1": {
                "bare paho": round(middle["bare"]),
                "ours": round(middle["ours"]),
                "ratio": round(middle["ours"] / middle["bare"], 2),
            },
            "bytes_per_second_64_KiB": {
                "bare paho, QoS 0": round(middle["bare_bytes"]),
                "block transfer to a file": round(middle["blocks"]),
                "ratio": round(middle["blocks"] / middle["bare_bytes"], 2),
            },
        }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    results = json.dumps(measure(parser.parse_args().rounds), indent=2)
    print(results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(results + "\n")


if __name__ == "__main__":
    main()

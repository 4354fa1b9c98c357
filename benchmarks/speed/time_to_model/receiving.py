"""Devices of a fan-out that share a process; it is told on its standard input what to receive.

A line of JSON names broker, users and kind; once all are connected it says so. Those that fetch
then wait for a line with the offer, and where they get it. When all bytes are there it says what
that took.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed.transport_rate.raw import Peer, bare_client
from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.alternative_source import HttpsRules, OwnHost
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.tls import TlsFiles
from fleetledger.transport.transfer import BlockExchange

TOPICS = FleetTopics(FleetId("arrival"))
PATIENCE_SECONDS = 120.0


def main() -> None:
    """Receive what is told, once."""
    told = json.loads(sys.stdin.readline())
    users = {DeviceId(name): Peer(*given) for name, given in told["users"].items()}
    if told["kind"] in {"blocks", "http", "https"}:
        fetch(told, users)
    else:
        subscribe(told, users)


def fetch(told: Mapping[str, Any], users: Mapping[DeviceId, Peer]) -> None:
    """Fetch an offer by block exchange, every device at once."""
    exchanges = {
        name: exchange_of(told["host"], told["port"], peer, name) for name, peer in users.items()
    }
    _say()
    where = json.loads(sys.stdin.readline())
    offer, urls = Offer.model_validate(where["offer"]), where.get("urls", {})
    tls = None if where.get("ca") is None else TlsFiles(ca_file=Path(where["ca"]))
    for exchange in exchanges.values():
        exchange.https = HttpsRules(own=OwnHost(told["host"], tls))
    spent = time.process_time()
    folder = Path(told["folder"])
    futures = [
        exchange.fetch(offer, folder / name, name, seconds=PATIENCE_SECONDS, url=urls.get(name))
        for name, exchange in exchanges.items()
    ]
    for future in futures:
        future.result(PATIENCE_SECONDS)
    _say(processor_seconds=time.process_time() - spent)
    for exchange in exchanges.values():
        exchange.stop()


def subscribe(told: Mapping[str, Any], users: Mapping[DeviceId, Peer]) -> None:
    """Count the blocks that come to bare subscribers, who may hash and write them."""
    counts, done = dict.fromkeys(users, 0), threading.Semaphore(0)
    hashes = {name: hashlib.sha256() for name in users}
    files = {name: (Path(told["folder"]) / name).open("wb", buffering=0) for name in users}
    keeps = told["kind"] == "hashed"

    def heard(name: DeviceId, block: bytes) -> None:
        counts[name] += 1
        if keeps:
            hashes[name].update(block)
            files[name].write(block)
        if counts[name] == told["blocks"]:
            if keeps:
                hashes[name].hexdigest()
                os.fsync(files[name].fileno())
            done.release()

    for name, peer in users.items():
        client = bare_client(told["host"], told["port"], peer, f"{name}.bare")
        subscribed = threading.Event()
        client.on_subscribe = lambda *_, event=subscribed: event.set()
        client.on_message = lambda *came, name=name: heard(name, came[2].payload)
        client.subscribe(str(TOPICS.down(name, "blk")), qos=0)
        if not subscribed.wait(PATIENCE_SECONDS):
            raise TimeoutError(f"{name} could not subscribe")
    spent = time.process_time()
    _say()
    for _ in users:
        if not done.acquire(timeout=PATIENCE_SECONDS):
            raise TimeoutError("blocks were lost; the rate would be wrong")
    _say(processor_seconds=time.process_time() - spent)


def exchange_of(host: str, port: int, peer: Peer, device: DeviceId | None) -> BlockExchange:
    """Return a started exchange that is connected; the coordinator's without a device."""
    name = device or DeviceId(COORDINATOR)
    settings = MqttSettings(
        client_id=f"{name}.data", host=host, port=port, user=peer.user, password=peer.password
    )
    sender = Sender(TOPICS.fleet, name, BootId.fresh())
    exchange = BlockExchange(MqttConnection(settings), TOPICS, sender, device=device)
    exchange.start()
    exchange.connection.wait_connected(PATIENCE_SECONDS)
    return exchange


def _say(**what: float) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()

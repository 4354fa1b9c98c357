"""The floor: a bare paho publisher and a bare paho subscriber, with nothing around them.

`bare_rate` is what other benchmarks divide by: QoS 1, paho's own acknowledgement, a callback that
only counts.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Load:
    """How much is sent: `count` messages of `size` bytes at `qos`, at most `window` ahead."""

    count: int
    size: int
    qos: int = 1
    window: int = 200


@dataclass(frozen=True)
class Peer:
    """A user of the broker."""

    user: str
    password: str


def bare_client(host: str, port: int, peer: Peer, name: str) -> Client:
    """Return a connected paho client with its network thread running."""
    client = Client(
        CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5
    )
    client.username_pw_set(peer.user, peer.password)
    ready = threading.Event()
    client.on_connect = lambda *_: ready.set()
    client.connect(host, port)
    client.loop_start()
    if not ready.wait(_PATIENCE_SECONDS):
        raise TimeoutError(f"{host}:{port} did not answer")
    return client


def bare_rate(host: str, port: int, sides: tuple[Peer, Peer], topic: str, load: Load) -> float:
    """Return messages per second from the first peer to the second, both bare paho."""
    publisher = bare_client(host, port, sides[0], "bench.publisher")
    subscriber = bare_client(host, port, sides[1], "bench.subscriber")
    arrived = threading.Semaphore(0)
    subscribed = threading.Event()
    subscriber.on_message = lambda *_: arrived.release()
    subscriber.on_subscribe = lambda *_: subscribed.set()
    subscriber.subscribe(topic, load.qos)
    subscribed.wait(_PATIENCE_SECONDS)
    payload = bytes(load.size)
    try:
        began = time.perf_counter()
        for number in range(load.count):
            if number >= load.window:
                _await(arrived)
            publisher.publish(topic, payload, load.qos)
        for _ in range(min(load.window, load.count)):
            _await(arrived)
        return load.count / (time.perf_counter() - began)
    finally:
        for client in (publisher, subscriber):
            client.disconnect()
            client.loop_stop()


def _await(arrived: threading.Semaphore) -> None:
    if not arrived.acquire(timeout=_PATIENCE_SECONDS):
        raise TimeoutError("a message did not arrive; the rate would be wrong")

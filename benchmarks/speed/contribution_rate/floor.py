"""The floor: a bare paho subscriber in a process of its own, acknowledging by hand.

It may also answer each message with a receipt of the coordinator's size, which tells how much of
the way is the broker's and paho's alone.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from benchmarks.speed.transport_rate.raw import Peer

PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Seat:
    """Where the subscriber sits and what it does."""

    host: str
    port: int
    peer: Peer
    filter: str
    """What it subscribes to: `…/up/+/msg`."""
    count: int
    """Messages to wait for."""
    answer: bytes = b""
    """Sent back to the device of each message, if not empty."""


@dataclass(frozen=True)
class Subscriber:
    """A running subscriber."""

    process: int
    """Process id."""
    pipe: Connection
    """Where it tells the monotonic clock at the last message."""


@contextmanager
def bare_subscriber(seat: Seat) -> Iterator[Subscriber]:
    """Run a subscriber in a child process; it is ready when this gives it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_subscribe, args=(seat, theirs))
    process.start()
    try:
        if process.pid is None or not ours.poll(PATIENCE_SECONDS):
            raise TimeoutError("the bare subscriber did not start")
        ours.recv()
        yield Subscriber(process.pid, ours)
    finally:
        process.kill()
        process.join()


def _subscribe(seat: Seat, pipe: Connection) -> None:
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=f"{seat.peer.user}.bare",
        protocol=MQTTProtocolVersion.MQTTv5,
        manual_ack=True,
    )
    client.username_pw_set(seat.peer.user, seat.peer.password)
    subscribed, done = threading.Event(), threading.Event()
    left = seat.count

    def receive(_client: Client, _data: object, message: MQTTMessage) -> None:
        nonlocal left
        client.ack(message.mid, message.qos)
        if seat.answer:
            topic = message.topic.replace("/up/", "/down/").replace("/msg", "/rcpt")
            client.publish(topic, seat.answer, qos=1)
        left -= 1
        if left == 0:
            done.set()

    client.on_message = receive
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect(seat.host, seat.port)
    client.subscribe(seat.filter, qos=1)
    client.loop_start()
    subscribed.wait(PATIENCE_SECONDS)
    pipe.send("ready")
    done.wait()
    pipe.send(time.monotonic())
    threading.Event().wait()  # until it is ended

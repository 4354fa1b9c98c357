"""The devices: a bare paho connection each, all driven by one thread, so that they cost little.

Each device keeps a window of contributions under way and sends the next one when one of its own
is answered: by a receipt, or by the broker's acknowledgement where nobody sends receipts.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from benchmarks.speed.transport_rate.raw import Peer
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId

PATIENCE_SECONDS = 120.0
_MISC_SECONDS = 1.0
_ACCEPTED = b'"answer":{"answer":"accepted"'


@dataclass(frozen=True)
class Task:
    """What one side is given."""

    topics: FleetTopics
    messages: Sequence[Sequence[bytes]]
    """Envelopes of each device."""
    window: int
    """Messages of a device under way at a time."""
    answered: bool
    """Whether receipts come; else the broker's acknowledgement lets the next message go."""


@dataclass(eq=False)
class _Device:
    """One connection, and what it sends in the present task."""

    name: DeviceId
    client: Client
    topic: str = ""
    messages: Sequence[bytes] = ()
    sent: int = 0
    subscribed: bool = False
    strange: list[bytes] = field(default_factory=list)
    """Answers that are no acceptance; there must be none."""

    def send_next(self) -> None:
        """Publish the next envelope, if one is left."""
        if self.sent < len(self.messages):
            self.client.publish(self.topic, self.messages[self.sent], qos=1)
            self.sent += 1


class Fleet:
    """All devices, connected; `give` runs one task to its end."""

    def __init__(self, host: str, port: int, peers: Sequence[Peer]) -> None:
        self._selector = selectors.DefaultSelector()
        self._answers = 0
        self._receipts_count = False
        self._devices = [self._connect(host, port, peer) for peer in peers]
        self._until(lambda: all(device.client.is_connected() for device in self._devices))

    def subscribe(self, topics: FleetTopics) -> None:
        """Let every device hear its receipts."""
        for device in self._devices:
            device.subscribed = False
            device.client.subscribe(str(topics.down(device.name, "rcpt")), qos=1)
        self._until(lambda: all(device.subscribed for device in self._devices))

    def give(self, task: Task) -> tuple[float, float]:
        """Send all; return the monotonic clock at the first publish and at the last answer."""
        self._answers, self._receipts_count = 0, task.answered
        for device, messages in zip(self._devices, task.messages, strict=True):
            device.topic = str(task.topics.up(device.name, "msg"))
            device.messages, device.sent = messages, 0
        began = time.monotonic()
        for _ in range(task.window):
            for device in self._devices:
                device.send_next()
        count = sum(map(len, task.messages))
        self._until(lambda: self._answers >= count)
        ended = time.monotonic()
        self._check()
        return began, ended

    def close(self) -> None:
        """Leave the broker."""
        self._selector.close()
        for device in self._devices:
            device.client.disconnect()

    def _connect(self, host: str, port: int, peer: Peer) -> _Device:
        client = Client(
            CallbackAPIVersion.VERSION2, client_id=peer.user, protocol=MQTTProtocolVersion.MQTTv5
        )
        device = _Device(DeviceId(peer.user), client)
        client.username_pw_set(peer.user, peer.password)
        client.on_subscribe = lambda *_: setattr(device, "subscribed", True)
        client.on_publish = lambda *_: self._acknowledged(device)
        client.on_message = lambda _client, _data, message: self._received(device, message)
        client.connect(host, port)
        socket = client.socket()
        assert socket is not None, "connect would have raised"
        self._selector.register(socket, selectors.EVENT_READ, device)
        return device

    def _acknowledged(self, device: _Device) -> None:
        if not self._receipts_count:
            self._answers += 1
            device.send_next()

    def _received(self, device: _Device, message: MQTTMessage) -> None:
        if not self._receipts_count:
            return
        if _ACCEPTED not in message.payload:
            device.strange.append(bytes(message.payload))
        self._answers += 1
        device.send_next()

    def _until(self, done: Callable[[], bool]) -> None:
        """Read and write until `done`; raise `TimeoutError` when nothing comes for long."""
        end = time.monotonic() + PATIENCE_SECONDS
        next_misc = 0.0
        while not done():
            for key, _ in self._selector.select(0.05):
                device: _Device = key.data
                device.client.loop_read()
            now = time.monotonic()
            if now >= next_misc:
                next_misc = now + _MISC_SECONDS
                for device in self._devices:
                    device.client.loop_misc()
            for device in self._devices:
                if device.client.want_write():
                    device.client.loop_write()
            if now > end:
                raise TimeoutError(f"{self._answers} answers came, then no more")

    def _check(self) -> None:
        strange = [answer for device in self._devices for answer in device.strange]
        if strange:
            raise RuntimeError(f"{len(strange)} not accepted, the first: {strange[0]!r}")

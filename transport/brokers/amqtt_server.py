"""The amqtt process: `python -m fleetledger.transport.brokers.amqtt_server CONFIGURATION.json`.

It ends on SIGTERM, on Ctrl-C, and when the pipe on its standard input is closed, which happens when
its parent dies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import Action
from amqtt.session import Session

_PLUGINS = "fleetledger.transport.brokers.amqtt_plugins"
_SESSION_EXPIRY_SECONDS = 24 * 3600
_MQTT_3_1_1 = 4
_UNSUPPORTED_VERSION = bytes((0x20, 3, 0, 0x84, 0))
"""A CONNACK of MQTT 5 that says "unsupported protocol version"."""


class RepeatingReader(StreamReaderAdapter):  # type: ignore[misc] # amqtt has no usable hints
    """A reader that gives out again what was read from the stream before."""

    def __init__(self, before: bytes, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._before = before

    async def read(self, n: int = -1) -> bytes:
        """Return the next bytes, at most `n`, or all for -1."""
        taken = len(self._before) if n < 0 else min(n, len(self._before))
        piece, self._before = self._before[:taken], self._before[taken:]
        if taken == n:
            return piece
        return piece + bytes(await super().read(n if n < 0 else n - taken))


class GuardedBroker(Broker):  # type: ignore[misc] # amqtt has no usable hints
    """amqtt, mended in two places (as of 0.12.1).

    - As released it sends a connecting session the retained messages under *every* filter that
      anybody subscribed to, without asking its topic plugins.
    - It reads a CONNECT of MQTT 5 as one of 3.1.1, and waits for bytes that never come instead of
      answering that it knows no such version.
    """

    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        """Take a TCP connection, or refuse its protocol version."""
        try:
            head = await read_connect_head(reader)
        except asyncio.IncompleteReadError:
            writer.close()
            return
        if head[-1] == _MQTT_3_1_1:
            await self._client_connected(
                listener_name, RepeatingReader(head, reader), StreamWriterAdapter(writer)
            )
            return
        writer.write(_UNSUPPORTED_VERSION)
        writer.close()

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None:
        topic_filter, qos = subscription
        handler = self._get_handler(session)
        subscribers = [who.client_id for who, _ in self._subscriptions.get(topic_filter, [])]
        if handler is None or session.client_id not in subscribers:
            return
        deliveries = [
            handler.mqtt_publish(topic, kept.data, min(qos, kept.qos or 0), retain=True)
            for topic, kept in list(self._retained_messages.items())
            if self._matches(topic, topic_filter)
            and await self._topic_filtering(session, topic, Action.RECEIVE)
        ]
        await asyncio.gather(*deliveries, return_exceptions=True)


async def read_connect_head(reader: asyncio.StreamReader) -> bytes:
    """Return the first bytes of a CONNECT packet, up to and with its protocol version."""
    head = await reader.readexactly(2)
    while head[-1] & 0x80 and len(head) < 5:  # the length has up to four bytes
        head += await reader.readexactly(1)
    name_size = await reader.readexactly(2)
    return head + name_size + await reader.readexactly(int.from_bytes(name_size, "big") + 1)


def configuration(path: Path) -> dict[str, Any]:
    """Return amqtt's configuration for our configuration file: our plugins and no others."""
    ours = json.loads(path.read_text())
    return {
        "listeners": {"default": {"type": "tcp", "bind": f"{ours['host']}:{ours['port']}"}},
        "session_expiry_interval": _SESSION_EXPIRY_SECONDS,
        "plugins": {
            f"{_PLUGINS}.SecretAuthentication": {"path": str(path)},
            f"{_PLUGINS}.TopicAccess": {},
        },
    }


async def serve(path: Path) -> None:
    """Run the broker until told to end."""
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    # New users are read when they first connect; the signal that tells Mosquitto would kill us.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _end_with_parent(loop, end)
    broker = GuardedBroker(configuration(path))
    await broker.start()
    await end.wait()
    await broker.shutdown()


def _end_with_parent(loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
    descriptor = sys.stdin.fileno()

    def on_readable() -> None:
        if not os.read(descriptor, 1):
            end.set()

    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        loop.add_reader(descriptor, on_readable)


def main() -> None:
    """Read the one argument and serve."""
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()

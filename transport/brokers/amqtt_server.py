"""The amqtt process: `python -m transport.brokers.amqtt_server CONFIGURATION.json`.

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

from amqtt.broker import Broker
from amqtt.contexts import Action
from amqtt.session import Session

_PLUGINS = "transport.brokers.amqtt_plugins"
_SESSION_EXPIRY_SECONDS = 24 * 3600


class GuardedBroker(Broker):  # type: ignore[misc] # amqtt has no usable hints
    """amqtt that hands retained messages only to those who subscribed to them and may have them.

    As released (0.12.1) it sends a connecting session the retained messages under *every* filter
    that anybody subscribed to, without asking its topic plugins.
    """

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

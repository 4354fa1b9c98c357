"""A real coordinator in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from paho.mqtt.client import MQTTMessage

from benchmarks.speed.transport_rate.raw import Peer, bare_client
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import Digest
from fleetledger.transport.brokers import MosquittoBroker

PATIENCE_SECONDS = 60.0
_BIRTH = b'"kind":"coordinator.birth"'


@dataclass
class Heard:
    """The birth of a coordinator that was waited for."""

    announced: threading.Event = field(default_factory=threading.Event)
    birth: Digest | None = None
    """Its message, to which devices that sign refer."""


@dataclass(frozen=True)
class Served:
    """A coordinator that serves."""

    process: int
    birth: Digest


@contextmanager
def serving(
    broker: MosquittoBroker, home: Path, topics: FleetTopics, *options: str
) -> Iterator[Served]:
    """Serve `home`; give process and birth once the coordinator has announced itself.

    Raises `RuntimeError` with the end of its log if it does not end in an orderly way.
    """
    log = home / "log"
    with _birth(broker, topics) as heard, log.open("wb") as file:
        serve = [sys.executable, "-m", "fleetledger", "coordinator", "serve", "--home", str(home)]
        command = [*serve, *options]
        process = subprocess.Popen(command, stderr=file)
        try:
            if not heard.announced.wait(PATIENCE_SECONDS) or heard.birth is None:
                raise TimeoutError(f"the coordinator does not answer: {_last_words(log)}")
            yield Served(process.pid, heard.birth)
        finally:
            process.terminate()
            code = process.wait(PATIENCE_SECONDS)
    if code != 0:
        raise RuntimeError(f"the coordinator ended with {code}: {_last_words(log)}")


@contextmanager
def _birth(broker: MosquittoBroker, topics: FleetTopics) -> Iterator[Heard]:
    """Watch for the birth of a coordinator; one that is retained is of an earlier round."""
    found = Heard()

    def heard(_client: object, _data: object, message: MQTTMessage) -> None:
        if _BIRTH in message.payload and not message.retain:
            found.birth = decode(message.payload).message_id
            found.announced.set()

    peer = Peer(*broker.credentials("coordinator"))
    watcher = bare_client(broker.host, broker.port, peer, "coordinator.watcher")
    watcher.on_message = heard
    watcher.subscribe(str(topics.coordinator_state), qos=1)
    try:
        yield found
    finally:
        watcher.disconnect()
        watcher.loop_stop()


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-1000:]

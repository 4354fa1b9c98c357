"""A model's way to many devices at once, beside as many bytes sent by bare paho.

Both have one sender in this process, and receivers that share a few other ones.

    blocks  block exchanges as in coordinator and agents: every block is asked for, checked against
            its hash and written to a file, the whole is hashed and synced
    bare    blocks of the same size, QoS 0, each subscriber on a topic of its own: the floor
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.speed.time_to_model.receiving import PATIENCE_SECONDS, TOPICS, exchange_of
from benchmarks.speed.transport_rate.raw import Peer, bare_client
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers import MosquittoBroker

Kind = Literal["blocks", "bare"]


@dataclass(frozen=True)
class FanOut:
    """How much is sent to whom."""

    devices: Sequence[DeviceId]
    size: int
    processes: int


@dataclass(frozen=True)
class Moved:
    """One run: seconds of the clock, and of the processor time of all ends."""

    seconds: float
    processor_seconds: float


def by_blocks(broker: MosquittoBroker, plan: FanOut, folder: Path) -> Moved:
    """Let every device fetch the model at once."""
    peer = Peer(*broker.credentials(COORDINATOR))
    serving = exchange_of(broker.host, broker.port, peer, None)
    try:
        offer = serving.serve(random.Random(1).randbytes(plan.size)).model_dump(mode="json")
        with _receivers("blocks", broker, plan, folder) as receivers:
            return _timed(receivers, lambda: _tell(receivers, offer))
    finally:
        serving.stop()


def by_bare_paho(broker: MosquittoBroker, plan: FanOut, folder: Path) -> Moved:
    """Send every bare subscriber as many bytes in blocks, each on its own topic."""
    peer = Peer(*broker.credentials(COORDINATOR))
    publisher = bare_client(broker.host, broker.port, peer, "coordinator.bare")
    topics = [str(TOPICS.down(name, "blk")) for name in plan.devices]
    block = bytes(DEFAULT_BLOCK_SIZE)

    def send() -> None:
        for _ in range(-(-plan.size // DEFAULT_BLOCK_SIZE)):
            for topic in topics:
                publisher.publish(topic, block, qos=0)
            while publisher.want_write():
                time.sleep(0.0005)

    try:
        with _receivers("bare", broker, plan, folder) as receivers:
            return _timed(receivers, send)
    finally:
        publisher.disconnect()
        publisher.loop_stop()


def _timed(receivers: Sequence[subprocess.Popen[str]], begin: Callable[[], None]) -> Moved:
    """Measure from `begin` on until all receivers have everything."""
    began, spent = time.perf_counter(), time.process_time()
    begin()
    theirs = [_hear(one)["processor_seconds"] for one in receivers]
    return Moved(time.perf_counter() - began, time.process_time() - spent + sum(theirs))


@contextmanager
def _receivers(
    kind: Kind, broker: MosquittoBroker, plan: FanOut, folder: Path
) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """Yield processes that hold the receivers, all of them connected."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.speed.time_to_model.receiving"]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ)
        for _ in range(min(plan.processes, len(plan.devices)))
    ]
    try:
        for number, process in enumerate(started):
            names = plan.devices[number :: len(started)]
            users = {name: broker.credentials(name) for name in names}
            blocks = -(-plan.size // DEFAULT_BLOCK_SIZE)
            told = {"kind": kind, "port": broker.port, "users": users, "blocks": blocks}
            _tell([process], told | {"host": broker.host, "folder": str(folder)})
        for process in started:
            _hear(process)
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _tell(receivers: Sequence[subprocess.Popen[str]], what: object) -> None:
    for process in receivers:
        assert process.stdin is not None
        process.stdin.write(json.dumps(what) + "\n")
        process.stdin.flush()


def _hear(receiver: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a receiver says next; it gives up by itself after `PATIENCE_SECONDS`."""
    assert receiver.stdout is not None
    said = receiver.stdout.readline()
    if not said:
        raise RuntimeError(f"a receiver ended; they wait for {PATIENCE_SECONDS:.0f} s")
    found: dict[str, Any] = json.loads(said)
    return found

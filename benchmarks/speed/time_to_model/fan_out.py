"""A model's way to many devices at once, beside as many bytes sent by bare paho.

Both have one sender in this process, and receivers that share a few other ones.

    blocks  block exchanges as in coordinator and agents: every block is asked for, checked against
            its hash and written to a file, the whole is checked and synced
    http    the same devices fetch from the coordinator's web server
    https   the same with TLS
    bare    blocks of 64 KiB, QoS 0, each subscriber on a topic of its own
    hashed  the same, and each subscriber hashes what comes, writes it to a file, and syncs that
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

import psutil

from benchmarks.speed.time_to_model.receiving import PATIENCE_SECONDS, TOPICS, exchange_of
from benchmarks.speed.transport_rate.raw import Peer, bare_client
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.authority import Authority
from fleetledger.transport.brokers.private_files import write_secret
from fleetledger.transport.file_host import FileHost, FileTokens, HostedFiles

Kind = Literal["blocks", "http", "https", "bare", "hashed"]


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
    sender: float = 0.0
    receivers: float = 0.0
    broker: float = 0.0


def by_blocks(broker: MosquittoBroker, plan: FanOut, folder: Path) -> Moved:
    """Let every device fetch the model at once."""
    peer = Peer(*broker.credentials(COORDINATOR))
    serving = exchange_of(broker.host, broker.port, peer, None)
    try:
        offer = serving.serve(random.Random(1).randbytes(plan.size)).model_dump(mode="json")
        with _receivers("blocks", broker, plan, folder) as receivers:
            return _timed(broker, receivers, lambda: _tell(receivers, {"offer": offer}))
    finally:
        serving.stop()


def by_http(broker: MosquittoBroker, plan: FanOut, folder: Path, kind: Kind = "http") -> Moved:
    """Let every device fetch the model at once, from the coordinator's web server."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model").write_bytes(random.Random(1).randbytes(plan.size))
    source = BlockSource(folder / "model")
    serving = exchange_of(broker.host, broker.port, Peer(*broker.credentials(COORDINATOR)), None)
    serving.serve(source)
    certificate, told = None, {"offer": source.offer.model_dump(mode="json"), "ca": None}
    if kind == "https":
        authority = Authority.of(folder / "ca", "arrival")
        issued = authority.server([broker.host])
        certificate = folder / "files.pem", folder / "files.key"
        write_secret(certificate[0], issued.certificate)
        write_secret(certificate[1], issued.key)
        write_secret(folder / "ca.pem", authority.certificate)
        told["ca"] = str(folder / "ca.pem")
    host = FileHost(
        HostedFiles(
            broker.host, 0, FileTokens(3600), lambda _: source.data, lambda _: True, certificate
        )
    )
    host.start()
    urls = {name: host.url(name, source.offer.digest) for name in plan.devices}
    try:
        with _receivers(kind, broker, plan, folder) as receivers:
            return _timed(broker, receivers, lambda: _tell(receivers, told | {"urls": urls}))
    finally:
        host.stop()
        serving.stop()


def by_https(broker: MosquittoBroker, plan: FanOut, folder: Path) -> Moved:
    """Do the same with TLS."""
    return by_http(broker, plan, folder, "https")


def by_hashing_paho(broker: MosquittoBroker, plan: FanOut, folder: Path) -> Moved:
    """Send bare subscribers as many bytes, who hash and write them."""
    return by_bare_paho(broker, plan, folder, "hashed")


def by_bare_paho(broker: MosquittoBroker, plan: FanOut, folder: Path, kind: Kind = "bare") -> Moved:
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
        with _receivers(kind, broker, plan, folder) as receivers:
            return _timed(broker, receivers, send)
    finally:
        publisher.disconnect()
        publisher.loop_stop()


def _timed(
    broker: MosquittoBroker, receivers: Sequence[subprocess.Popen[str]], begin: Callable[[], None]
) -> Moved:
    """Measure from `begin` on until all receivers have everything."""
    served = _process_of(broker)
    before = sum(served.cpu_times()[:2])
    began, spent = time.perf_counter(), time.process_time()
    begin()
    theirs = sum(_hear(one)["processor_seconds"] for one in receivers)
    seconds, mine = time.perf_counter() - began, time.process_time() - spent
    brokers = sum(served.cpu_times()[:2]) - before
    return Moved(seconds, mine + theirs, mine, theirs, brokers)


def _process_of(broker: MosquittoBroker) -> psutil.Process:
    """Return the broker's process: the child of this one that listens at its port."""
    for child in psutil.Process().children():
        for one in child.net_connections():
            if one.status == psutil.CONN_LISTEN and one.laddr.port == broker.port:
                return child
    raise RuntimeError(f"nothing listens at {broker.port}")


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

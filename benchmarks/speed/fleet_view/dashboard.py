"""A real dashboard in a process of its own, and those who look at it."""

from __future__ import annotations

import http.client
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from fleetledger.coordinator.dashboard.pages import PAGES
from fleetledger.schemas.values import DeviceId

PATIENCE_SECONDS = 60.0
_ADDRESS = re.compile(rb"http://[0-9.]+:[0-9]+")
_NOT_IN_HISTORY = ("/rounds/", "/rollouts/")
_PROGRAM = [sys.executable, "-m", "fleetledger", "dashboard"]


@dataclass(frozen=True)
class Served:
    """A dashboard that serves."""

    process: int
    host: str
    port: int
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.token}", "Host": f"{self.host}:{self.port}"}

    def first_byte(self, path: str) -> float:
        """Return the seconds from sending a request to the first byte of what was asked for.

        Raises `RuntimeError` for any status but 200.
        """
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        connection.connect()
        began = time.perf_counter()
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        answer.read(1)
        seconds = time.perf_counter() - began
        answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: status {answer.status}")
        return seconds

    def cpu_seconds(self) -> float:
        """Return the processor time of the process, all threads."""
        times = psutil.Process(self.process).cpu_times()
        return float(times.user + times.system)

    def resident_mib(self) -> float:
        """Return what the process holds of memory."""
        return float(psutil.Process(self.process).memory_info().rss / 2**20)


@contextmanager
def dashboard(home: Path) -> Iterator[Served]:
    """Serve `home` on a free port; raise `RuntimeError` where it does not say its address."""
    token = subprocess.run(
        [*_PROGRAM, "token", "benchmark", "--home", str(home)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    command = [*_PROGRAM, "--home", str(home), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        found = _ADDRESS.search(process.stdout.readline())
        if found is None:
            raise RuntimeError("the dashboard does not say its address")
        address = urlsplit(found[0].decode())
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        yield Served(process.pid, address.hostname or "", address.port or 0, token)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def addresses(device: DeviceId, entries: int) -> list[str]:
    """Return an address of every page and of its JSON, and of what programs ask.

    Those of a round and of a rollout are left out, for this history has neither.

    Raises `KeyError` for a page whose address has a part that is not known here.
    """
    parts = {
        "name": device,
        "device": device,
        "version": 1,
        "model": 1,
        "stage": 1,
        "number": 1,
        "index": entries // 2,
        "entry": entries // 2,
    }
    found = []
    for page in (page for page in PAGES if not page.path.startswith(_NOT_IN_HISTORY)):
        for path in (page.path, page.json_path):
            found.append(re.sub(r"\{(\w+)(?::\w+)?\}", lambda part: str(parts[part[1]]), path))
    return [*found, "/metrics", "/readyz"]


@dataclass
class Streams:
    """Streams of events that are open, read by one thread that does nothing else."""

    served: Served
    count: int
    received: int = 0
    """Bytes, of all."""
    broken: int = 0
    """Streams that ended."""
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def opened(self) -> Iterator[Streams]:
        """Open them; give them once each has answered."""
        sockets = [self._open() for _ in range(self.count)]
        thread = threading.Thread(target=self._read, args=(sockets,))
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()
            for one in sockets:
                one.close()

    def _open(self) -> socket.socket:
        one = socket.create_connection((self.served.host, self.served.port), PATIENCE_SECONDS)
        lines = [f"{name}: {value}" for name, value in self.served.headers.items()]
        text = "\r\n".join(["GET /events HTTP/1.1", *lines, "Accept: text/event-stream", "", ""])
        one.sendall(text.encode())
        status = one.recv(4096).partition(b"\r\n")[0]
        if b" 200 " not in status:
            raise RuntimeError(f"/events: {status.decode(errors='replace')}")
        return one

    def _read(self, sockets: Sequence[socket.socket]) -> None:
        with selectors.DefaultSelector() as selector:
            for one in sockets:
                selector.register(one, selectors.EVENT_READ)
            while not self._ended.is_set():
                for key, _ in selector.select(0.2):
                    reader = key.fileobj
                    assert isinstance(reader, socket.socket)
                    data = reader.recv(65536)
                    self.received += len(data)
                    if not data:
                        self.broken += 1
                        selector.unregister(reader)


@contextmanager
def looking(served: Served, paths: Sequence[str], streams: int) -> Iterator[None]:
    """Keep streams open, and load one page a second, in turns, until left."""
    ended = threading.Event()
    failures: list[Exception] = []

    def load() -> None:
        number = 0
        while not ended.wait(1.0):
            try:
                served.first_byte(paths[number % len(paths)])
            except (OSError, RuntimeError) as error:
                failures.append(error)
            number += 1

    with Streams(served, streams).opened():
        thread = threading.Thread(target=load)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    if failures:
        raise failures[0]

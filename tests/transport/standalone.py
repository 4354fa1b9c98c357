"""Starts a Mosquitto from a folder that `broker-config` wrote, as an operator would."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from fleetledger.transport.brokers.child import free_port
from fleetledger.transport.brokers.folder import BROKER_LOG, STATE
from fleetledger.transport.brokers.lifeline import end_with_parent
from fleetledger.transport.brokers.mosquitto import find_mosquitto
from fleetledger.transport.brokers.mosquitto_configuration import LOOPBACK
from tests.transport.worlds import PATIENCE

__all__ = ["RunningBroker", "free_port", "running"]


class RunningBroker:
    """The process, with what tests do to it."""

    host = LOOPBACK

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._start()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def secret(self, user: str) -> str:
        return (self.folder / "passwords" / user).read_text().strip()

    def memory(self) -> int:
        """Return its resident bytes."""
        return psutil.Process(self._process.pid).memory_info().rss

    def written(self) -> int:
        """Return the bytes that it has written to disks."""
        return psutil.Process(self._process.pid).io_counters().write_chars

    def reload(self) -> None:
        self._process.send_signal(signal.SIGHUP)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def crash(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def start_again(self) -> None:
        self._start()

    def log(self) -> str:
        files = (self.folder / "log", self.folder / STATE / BROKER_LOG)
        return "".join(path.read_text(errors="replace") for path in files if path.exists())

    def _start(self) -> None:
        program = find_mosquitto()
        assert program is not None
        configuration = self.folder / "mosquitto.conf"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-c", str(configuration)],
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent(signal.SIGKILL),  # noqa: PLW1509 - one system call
            )
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self._process.poll() is None, self.log()
            try:
                socket.create_connection((LOOPBACK, self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError(f"it does not listen: {self.log()}")


@contextmanager
def running(folder: Path, port: int) -> Iterator[RunningBroker]:
    """Start Mosquitto from `folder` for as long as the block lasts."""
    broker = RunningBroker(folder, port)
    try:
        yield broker
    finally:
        broker.crash()

"""What all child brokers share: a directory, a port, secrets, and the life of a process."""

from __future__ import annotations

import abc
import contextlib
import json
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from typing_extensions import Self

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers.lifeline import end_with_parent, interrupted_later
from fleetledger.transport.brokers.readiness import accepts
from fleetledger.transport.errors import BrokerStartError

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_ATTEMPTS = 3


class ChildBroker(abc.ABC):
    """A broker process with its files in one directory.

    - Every user has a random secret; it is kept in `secrets.json`, so that a broker started again
      in the same directory still accepts the same users.
    - The port is free at the time of choosing and stays the same over restarts.
    - The process is in a session of its own: Ctrl-C reaches our program first, which then stops
      its agents before their broker.
    """

    kind: ClassVar[str]
    """Name of the program: `mosquitto` or `amqtt`."""

    def __init__(
        self,
        directory: Path,
        users: Iterable[str],
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
    ) -> None:
        self.directory = directory
        self.host = host
        self.port = port if port is not None else free_port(host)
        self._port_is_ours = port is None
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._secrets = self._load_secrets()
        self._admit([COORDINATOR, *_checked(users)])

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """One sentence for people: which broker this is, where, and what it keeps."""

    @abc.abstractmethod
    def command(self) -> list[str]:
        """Return the program and its arguments; raise `BrokerStartError` if it is not there."""

    @abc.abstractmethod
    def write_configuration(self) -> None:
        """Write what the process reads, for the present port and secrets."""

    def environment(self) -> dict[str, str] | None:
        """Return the environment of the process; None means ours."""
        return None

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def credentials(self, user: str) -> tuple[str, str]:
        """Return user name and password; raise `BrokerStartError` for an unknown user."""
        if user not in self._secrets:
            raise BrokerStartError(f"user: {user!r} is unknown to this broker; add_users first")
        return user, self._secrets[user]

    def add_users(self, users: Iterable[str]) -> None:
        """Admit further devices, also while running."""
        self._admit(_checked(users))
        if self._process is not None and self.running:
            self.write_configuration()
            self._process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        """Start the process and wait until it lets us in; raise `BrokerStartError`."""
        for attempt in range(_ATTEMPTS):
            self.write_configuration()
            self._launch()
            if self._becomes_ready():
                return
            last_words = self._last_words()
            self.kill()
            if not self._port_is_ours or "in use" not in last_words or attempt == _ATTEMPTS - 1:
                raise BrokerStartError(f"{self.kind} did not start: {last_words}")
            self.port = free_port(self.host)

    def stop(self) -> None:
        """End the process in an orderly way; may be called twice."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):  # then it is killed
            self._process.wait(_STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _launch(self) -> None:
        with (self.directory / "broker.log").open("ab") as log, interrupted_later():
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                self.command(),
                env=self.environment(),
                stdin=subprocess.PIPE,  # its end tells the child that we are gone
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - one system call, no locks
            )

    def _becomes_ready(self) -> bool:
        end = time.monotonic() + _START_SECONDS
        while self.running and time.monotonic() < end:
            if accepts(self.host, self.port, *self.credentials(COORDINATOR)):
                return True
            time.sleep(0.02)
        return False

    def _last_words(self) -> str:
        text = (self.directory / "broker.log").read_text(errors="replace")
        return " / ".join(text.splitlines()[-3:]) or "it said nothing"

    def _admit(self, users: Iterable[str]) -> None:
        for user in users:
            self._secrets.setdefault(user, secrets.token_hex(32))
        write_private(self._secrets_path, json.dumps(self._secrets).encode("utf-8"))

    def _load_secrets(self) -> dict[str, str]:
        if not self._secrets_path.exists():
            return {}
        loaded = json.loads(self._secrets_path.read_text())
        return {str(user): str(secret) for user, secret in loaded.items()}

    @property
    def _secrets_path(self) -> Path:
        return self.directory / "secrets.json"


def free_port(host: str) -> int:
    """Return a TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _checked(users: Iterable[str]) -> list[DeviceId]:
    devices = [DeviceId(user) for user in users]
    if COORDINATOR in devices:
        raise InvalidValueError("user", COORDINATOR, "give the device another name")
    return devices

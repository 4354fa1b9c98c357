"""Eclipse Mosquitto as a child process, with a generated configuration."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from fleetledger.runtime.private_file import write_private
from fleetledger.transport.access import mosquitto_access_file
from fleetledger.transport.brokers.child import ChildBroker
from fleetledger.transport.brokers.mosquitto_configuration import LIMITS, LOG, persistence
from fleetledger.transport.errors import BrokerStartError

_USUAL_PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
_PBKDF2_ROUNDS = 101
"""Mosquitto's own default; the secrets are 256 random bits, so more would protect nothing."""


def find_mosquitto() -> str | None:
    """Return the path of the program, or None; Debian keeps it out of a user's PATH."""
    places = os.pathsep.join((os.environ.get("PATH", ""), *_USUAL_PLACES))
    return shutil.which("mosquitto", path=places)


class MosquittoBroker(ChildBroker):
    """Mosquitto; with `persistent` it saves its state every five minutes, and at its end."""

    kind = "mosquitto"

    def __init__(
        self,
        directory: Path,
        users: Iterable[str],
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        persistent: bool = False,
    ) -> None:
        super().__init__(directory, users, host=host, port=port)
        self.persistent = persistent

    @property
    def description(self) -> str:
        """Which Mosquitto runs, where, and what it keeps."""
        keeps = (
            f"saves sessions and messages to {self.directory} every five minutes, and at its end"
            if self.persistent
            else "keeps sessions and messages in memory only; after a restart clients send again"
        )
        return f"Mosquitto {self.version} at {self.host}:{self.port}; it {keeps}"

    @cached_property
    def version(self) -> str:
        """Version that the program reports, such as `2.0.11`."""
        said = subprocess.run(  # noqa: S603 - a program found on the PATH, no shell
            [self._program(), "-h"], capture_output=True, text=True, check=False, timeout=10
        )
        words = said.stdout.split()
        return words[words.index("version") + 1] if "version" in words else "of unknown version"

    def command(self) -> list[str]:
        """Return the command line."""
        return [self._program(), "-c", str(self.directory / "mosquitto.conf")]

    def write_configuration(self) -> None:
        """Write configuration, password file and access file."""
        self._write_private("passwords", "".join(self._password_lines()))
        self._write_private("access", mosquitto_access_file())
        self._write_private("mosquitto.conf", "\n".join(self._configuration()) + "\n")

    def _configuration(self) -> list[str]:
        lines = [
            f"listener {self.port} {self.host}",
            "allow_anonymous false",
            f"password_file {self.directory / 'passwords'}",
            f"acl_file {self.directory / 'access'}",
            *LIMITS,
            "log_dest stderr",
            *LOG,
        ]
        if os.geteuid() == 0:
            lines.append("user root")  # else it becomes a user who cannot read these files
        if self.persistent:
            lines += persistence(self.directory)
        return lines

    def _password_lines(self) -> Iterable[str]:
        for user, secret in self._secrets.items():
            yield f"{user}:{password_hash(secret)}\n"

    def _write_private(self, name: str, text: str) -> None:
        write_private(self.directory / name, text.encode("utf-8"))

    def _program(self) -> str:
        program = find_mosquitto()
        if program is None:
            raise BrokerStartError("mosquitto is not installed; try `apt install mosquitto`")
        return program


def password_hash(secret: str) -> str:
    """Return `secret` as Mosquitto 2 stores it: `$7$rounds$salt$hash`, PBKDF2 with SHA-512."""
    # Of the secret, so that a file that is written again is the same: nobody else has this secret.
    salt = hashlib.sha256(b"salt of " + secret.encode()).digest()[:12]
    digest = hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, _PBKDF2_ROUNDS)
    encoded = (base64.b64encode(part).decode() for part in (salt, digest))
    return "$".join(("", "7", str(_PBKDF2_ROUNDS), *encoded))

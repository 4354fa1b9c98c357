"""A folder with everything that a Mosquitto needs to serve one fleet, for a host of its own.

mosquitto.conf    listener, limits, persistence
acl_file          who may publish and receive what
password_file     the users' secrets, hashed; not with certificates of clients
state/            what Mosquitto saves, empty
passwords/USER    the secrets themselves, one file each; they never go to the broker's host
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.envelope import COORDINATOR, PROXY
from schemas.values import DeviceId
from transport.access import mosquitto_access_file
from transport.brokers.mosquitto import password_hash
from transport.brokers.mosquitto_configuration import (
    LIMITS,
    ServerCertificates,
    listener,
    persistence,
)
from transport.brokers.private_files import make_private_folder, secrets_of, write_secret

CONFIGURATION = "mosquitto.conf"
ACCESS = "acl_file"
PASSWORDS = "password_file"
STATE = "state"
SECRETS = "passwords"


@dataclass(frozen=True)
class BrokerFolder:
    """What to write, and for where."""

    folder: Path
    place: Path
    """Where the folder is, or will be copied to, on the broker's host."""
    port: int
    devices: Sequence[DeviceId]
    certificates: ServerCertificates | None = None

    @property
    def users(self) -> tuple[str, ...]:
        """Everybody who may log in."""
        return tuple(map(str, (COORDINATOR, PROXY, *self.devices)))

    @property
    def by_certificate(self) -> bool:
        """Whether clients show certificates instead of passwords."""
        return self.certificates is not None and self.certificates.client_ca_file is not None


def write_broker_folder(what: BrokerFolder) -> None:
    """Write the folder, keeping the secrets that are there.

    Raises `BrokerFilesError` for what cannot be written or read.
    """
    make_private_folder(what.folder)
    make_private_folder(what.folder / STATE)
    if not what.by_certificate:
        secrets = secrets_of(what.folder / SECRETS, what.users)
        lines = (f"{user}:{password_hash(secret)}\n" for user, secret in secrets.items())
        write_secret(what.folder / PASSWORDS, "".join(lines))
    write_secret(what.folder / ACCESS, mosquitto_access_file())
    write_secret(what.folder / CONFIGURATION, "\n".join(_configuration(what)) + "\n")


def _configuration(what: BrokerFolder) -> Iterable[str]:
    yield "# Written by fleetledger, for this fleet alone: changes are lost when it writes again."
    yield from listener(what.port, what.certificates)
    yield "allow_anonymous false"
    if not what.by_certificate:
        yield f"password_file {os.fspath(what.place / PASSWORDS)}"
    yield f"acl_file {os.fspath(what.place / ACCESS)}"
    yield from LIMITS
    yield from persistence(what.place / STATE)

"""A folder with everything that a Mosquitto needs to serve one fleet, for a host of its own.

mosquitto.conf    listeners, limits, persistence
acl_file          who may publish and receive what
password_file     the users' secrets, hashed; with certificates of clients the coordinator's alone
limits.conf       a drop-in for the systemd unit: how many files the broker may open
state/            what Mosquitto saves, the number of its process, and its log
passwords/USER    the secrets themselves, one file each; they never go to the broker's host

A user who is shut out has no secret, no line in `password_file`, and a rule that denies everything.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.access import mosquitto_access_file
from fleetledger.transport.brokers.mosquitto import password_hash
from fleetledger.transport.brokers.mosquitto_configuration import (
    LIMITS,
    LOG,
    MOST_CONNECTIONS,
    ServerCertificates,
    listener,
    local_listener,
    persistence,
    service_limits,
)
from fleetledger.transport.brokers.private_files import (
    forget_secret,
    make_private_folder,
    secrets_of,
    write_secret,
)

CONFIGURATION = "mosquitto.conf"
ACCESS = "acl_file"
PASSWORDS = "password_file"
STATE = "state"
SECRETS = "passwords"
SERVICE_LIMITS = "limits.conf"
PROCESS = "mosquitto.pid"
BROKER_LOG = "mosquitto.log"


@dataclass(frozen=True)
class BrokerFolder:
    """What to write, and for where."""

    folder: Path
    place: Path
    """Where the folder is, or will be copied to, on the broker's host."""
    port: int
    fleet: str
    """The only fleet that it serves; `+` for any."""
    devices: Sequence[DeviceId]
    shut_out: Sequence[DeviceId] = ()
    """Devices that had access and have it no more."""
    certificates: ServerCertificates | None = None
    local_port: int | None = None
    """Of the coordinator's listener on loopback; None for none."""
    connections: int = MOST_CONNECTIONS
    """That the devices' listener takes."""

    @property
    def here(self) -> bool:
        """Whether the folder stays where it is written, for a Mosquitto on this host."""
        return self.place == self.folder.absolute()

    @property
    def users(self) -> tuple[str, ...]:
        """Everybody who may log in."""
        return tuple(map(str, (COORDINATOR, PROXY, *self.devices)))

    @property
    def by_certificate(self) -> bool:
        """Whether clients show certificates instead of passwords."""
        return self.certificates is not None and self.certificates.client_ca_file is not None

    @property
    def users_with_passwords(self) -> tuple[str, ...]:
        """Users who have a line in the password file."""
        if not self.by_certificate:
            return self.users
        return () if self.local_port is None else (str(COORDINATOR),)


def write_broker_folder(what: BrokerFolder) -> None:
    """Write the folder, keeping the secrets that are there.

    Raises `BrokerFilesError` for what cannot be written or read.
    """
    make_private_folder(what.folder)
    make_private_folder(what.folder / STATE)
    if what.users_with_passwords:
        for user in what.shut_out:
            forget_secret(what.folder / SECRETS / user)
        secrets = secrets_of(what.folder / SECRETS, what.users_with_passwords)
        lines = (f"{user}:{password_hash(secret)}\n" for user, secret in secrets.items())
        write_secret(what.folder / PASSWORDS, "".join(lines))
    write_secret(what.folder / ACCESS, mosquitto_access_file(what.fleet, what.shut_out))
    write_secret(what.folder / SERVICE_LIMITS, service_limits())
    write_secret(what.folder / CONFIGURATION, "\n".join(_configuration(what)) + "\n")


def _configuration(what: BrokerFolder) -> Iterable[str]:
    yield "# Written by fleetledger, for this fleet alone: changes are lost when it writes again."
    yield from listener(what.port, what.certificates, what.connections)
    if what.local_port is not None:
        yield from local_listener(what.local_port)
    yield "allow_anonymous false"
    if what.users_with_passwords:
        yield f"password_file {os.fspath(what.place / PASSWORDS)}"
    yield f"acl_file {os.fspath(what.place / ACCESS)}"
    yield f"pid_file {os.fspath(what.place / STATE / PROCESS)}"
    if what.here:
        yield from _by_hand(what)
    else:
        yield "log_dest stderr"  # the journal of a service, the log of a container
    yield from LOG
    yield from LIMITS
    yield from persistence(what.place / STATE)


def _by_hand(what: BrokerFolder) -> Iterable[str]:
    """Return lines for a Mosquitto that somebody starts in a terminal of this host."""
    yield f"log_dest file {os.fspath(what.place / STATE / BROKER_LOG)}"
    try:
        owner = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return  # a user without a name, as in some containers
    # Root's Mosquitto becomes the user mosquitto otherwise, who may not read this folder.
    yield f"user {owner}"

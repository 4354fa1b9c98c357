"""The text of a Mosquitto configuration: where it listens, whom it lets in, what it keeps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.topics import ROOT
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.errors import BrokerFilesError

LIMITS = (
    "max_queued_messages 100000",  # the default of 1000 loses for slow subscribers
    "max_queued_bytes 33554432",  # of each client; the default has no limit
    "max_inflight_messages 32",
    "max_packet_size 1048576",
    "memory_limit 1073741824",
    "max_keepalive 300",  # else a session that is never heard again keeps its place for hours
    "persistent_client_expiration 1h",
)
"""What one client can have the broker keep; bytes, and 1 GiB for all of them together."""
LOG = ("log_dest topic", "log_type error", "log_type warning", "log_type notice")
"""Topics of the log tell the coordinator, and nobody else, who connects under which client id."""
_OF_A_LISTENER = ("max_qos 1",)
"""Nobody here sends with QoS 2, of which a sender alone decides how long the broker keeps it."""
MOST_CONNECTIONS = 400_000
"""Connections on the devices' listener, also those that never log in: one address has 64,512 ports,
so some neighbours with all of theirs shut nobody out."""
LOCAL_CONNECTIONS = 64
"""Sessions on the coordinator's own listener."""
MOST_FILES = 524_288
"""Descriptors for the broker, so that there are some for the coordinator's listener, too."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ServerCertificates:
    """Files of TLS, by their paths on the broker's host."""

    certificate_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    """Signs the clients' certificates, whose common name is then the user name; with None clients
    give passwords."""
    revocation_file: Path | None = None
    """Certificates that count no more, signed by that CA."""


def read_certificates(
    certificate_file: Path | None, key_file: Path | None, client_ca_file: Path | None
) -> ServerCertificates | None:
    """Return the files as one, None without any; raise `BrokerFilesError` if one is left out."""
    if certificate_file is None and key_file is None and client_ca_file is None:
        return None
    if certificate_file is None or key_file is None:
        missing = "certificate-file" if certificate_file is None else "key-file"
        raise BrokerFilesError(
            f"--{missing}: is missing; TLS needs the broker's certificate and its key, so give "
            "both, or none of the three files"
        )
    return ServerCertificates(certificate_file, key_file, client_ca_file)


def persistence(folder: Path) -> tuple[str, ...]:
    """Return the lines that save to `folder` every five minutes, and when the broker ends.

    Programs repeat whatever a crash loses; saving every change let one device write 15 GB a day.
    """
    return (
        "persistence true",
        f"persistence_location {os.fspath(folder)}/",
        "autosave_interval 300",
    )


def listener(
    port: int, certificates: ServerCertificates | None, connections: int
) -> tuple[str, ...]:
    """Return the lines of the devices' listener: with TLS on every address, else on loopback."""
    shares = (f"max_connections {connections}", *_OF_A_LISTENER)
    if certificates is None:
        return (f"listener {port} {LOOPBACK}", *shares)
    lines = (
        f"listener {port}",
        *shares,
        f"certfile {os.fspath(certificates.certificate_file)}",
        f"keyfile {os.fspath(certificates.key_file)}",
    )
    if certificates.client_ca_file is None:
        return lines
    revoked = certificates.revocation_file
    return (
        *lines,
        f"cafile {os.fspath(certificates.client_ca_file)}",
        *(() if revoked is None else (f"crlfile {os.fspath(revoked)}",)),
        "require_certificate true",
        "use_identity_as_username true",
    )


def local_listener(port: int) -> tuple[str, ...]:
    """Return the lines of the coordinator's listener, by password on loopback alone.

    It is open when all sessions of the devices' listener are taken.
    """
    return (
        f"listener {port} {LOOPBACK}",
        f"max_connections {LOCAL_CONNECTIONS}",
        *_OF_A_LISTENER,
    )


def service_limits() -> str:
    """Return a drop-in for the broker's systemd unit."""
    return f"[Service]\nLimitNOFILE={MOST_FILES}\n"


@dataclass(frozen=True)
class Bridge:
    """How a site's broker hands on to the fleet's, and takes from it."""

    site: str
    """Names the bridge at the fleet's broker; 1 to 40 of a-z, 0-9 and `-`."""
    host: str
    port: int
    password: str
    """The coordinator's at the fleet's broker: a bridge speaks for every device of its site."""


def bridge(what: Bridge) -> tuple[str, ...]:
    """Return the lines that a site's broker needs beside its own.

    What devices say goes out, what they are told comes in. Sessions are kept on both sides, so that
    what was acknowledged is not lost where the way between them is.
    """
    return (
        f"connection {what.site}",
        f"address {what.host}:{what.port}",
        "bridge_protocol_version mqttv50",
        "cleansession false",
        "notifications false",
        "try_private true",
        # Strangers at either broker who knew these names could cut the bridge off.
        f"local_clientid {fresh_client_id(COORDINATOR, f'bridge-{what.site}')}",
        f"remote_clientid {fresh_client_id(COORDINATOR, f'site-{what.site}')}",
        f"remote_username {COORDINATOR}",
        f"remote_password {what.password}",
        "restart_timeout 1 30",
        f"topic {ROOT}/+/up/# out 1",
        f"topic {ROOT}/+/down/# in 1",
        f"topic {ROOT}/+/all/# in 1",
    )

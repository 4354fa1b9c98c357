"""Settings of an MQTT connection."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.runtime.settings_file import SettingsError, find_secret, read_secret
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.envelope import MAX_ENVELOPE_BYTES
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.errors import PasswordFileError
from fleetledger.transport.tls import TlsFiles, TlsSettings, find_tls

MQTT_5 = 5
MQTT_3_1_1 = 4
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


def read_host(text: str) -> str:
    """Return a host as it is; raise `InvalidValueError` where a scheme, port or path is with it."""
    try:
        if not _NAME.fullmatch(text):
            ip_address(text)
    except ValueError:
        way_out = "a name or an IP address alone, such as broker.example; port and TLS are apart"
        raise InvalidValueError("host", text, way_out) from None
    return text


BrokerHost = Annotated[str, Field(max_length=253), AfterValidator(read_host)]
"""A name or an IP address, of version 6 without brackets."""


class BrokerSettings(Strict):
    """`[broker]` of a settings file; relative paths begin at that file's folder."""

    host: BrokerHost = "127.0.0.1"
    """Name or address of the broker."""
    port: int = Field(default=1883, ge=1, le=65535)
    """Port of the broker; 8883 is the usual one with TLS."""
    password_file: Path | None = Field(default=None, examples=["broker.password"])
    """File with the broker's password on one line, readable by its owner alone (chmod 600). It is
    read at every connection, so a new password needs no restart."""
    tls: TlsSettings | None = None
    """Encryption of the connection: docs/transport.md#tls. Left out, nothing is encrypted."""


@dataclass(frozen=True)
class MqttSettings:
    """Where and how to connect. The defaults suit a device and a coordinator alike."""

    client_id: str
    """Names the session at the broker; `transport.access.fresh_client_id` makes it."""
    host: str = "127.0.0.1"
    port: int = 1883
    user: str | None = None
    password: str | Path | None = field(default=None, repr=False)
    """The password, or a private file that has it on one line; it is read at each connection."""
    tls: TlsFiles | None = None
    """Left out, the connection is not encrypted."""
    versions: tuple[int, ...] = (MQTT_5, MQTT_3_1_1)
    """Protocol levels to try, best first; the one that worked is tried first the next time."""
    keepalive_seconds: int = 30
    answer_seconds: float = 5.0
    """How long to wait for the broker's answer, in each version."""
    keeps_session: bool = True
    """Whether the broker keeps subscriptions and messages over a short loss (version 5)."""
    session_expiry_seconds: int = 60
    """How long the broker keeps them after a loss. A run that ended comes back as another client,
    so a longer time would only fill the broker."""
    will_delay_seconds: int = 10
    """Hides short losses from the others (version 5; 3.1.1 publishes the will at once)."""
    max_payload: int = MAX_ENVELOPE_BYTES
    """Our own limit in bytes; the broker's announced one applies too."""
    max_packet: int = 1024 * 1024
    """Larger packets the broker shall not send us (version 5)."""
    tells_subscriptions: bool = False
    """Whether it is an event that the broker serves filters, see `interface.Subscribed`."""
    inflight: int = 16
    """Messages of QoS 1 on their way at once."""
    queue_bytes: int = 8 * 1024 * 1024
    """Bytes handed over and not yet sent; beyond, `publish` raises."""
    inbox_messages: int = 1_000
    inbox_bytes: int = 32 * 1024 * 1024
    reconnect_shortest_seconds: float = 0.5
    reconnect_longest_seconds: float = 30.0

    def secret(self) -> str | None:
        """Return the password as it is now; raise `PasswordFileError`."""
        if not isinstance(self.password, Path):
            return self.password
        try:
            return read_secret(self.password.parent, Path(self.password.name))
        except SettingsError as error:
            raise PasswordFileError(str(error)) from error


def settings_by_role(
    broker: BrokerSettings, home: Path, user: str
) -> Callable[[str], MqttSettings]:
    """Return what gives each connection of a program its settings, by its role.

    `user` is said where there is a password. Raises `SettingsError` for a wrong password file, and
    `TlsError` for wrong certificates.
    """
    password, tls = find_secret(home, broker.password_file), find_tls(broker.tls, home, user)

    def settings(role: str) -> MqttSettings:
        return MqttSettings(
            client_id=fresh_client_id(user, role),
            host=broker.host,
            port=broker.port,
            user=user if password is not None else None,
            password=password,
            tls=tls,
        )

    return settings

"""How the coordinator's processes connect to the broker."""

from __future__ import annotations

from pathlib import Path

from coordinator.settings import CoordinatorSettings, password_file
from transport.access import fresh_client_id
from transport.mqtt_settings import MqttSettings
from transport.tls import find_tls


def mqtt_settings(home: Path, settings: CoordinatorSettings, *, role: str) -> MqttSettings:
    """Return how the coordinator connects.

    Raises `SettingsError` for a wrong password file, and `TlsError` for wrong certificates.
    """
    password = password_file(home, settings)
    return MqttSettings(
        client_id=fresh_client_id(settings.broker.username, role),
        host=settings.broker.host,
        port=settings.broker.port,
        user=settings.broker.username if password is not None else None,
        password=password,
        tls=find_tls(settings.broker.tls, home, settings.broker.username),
    )

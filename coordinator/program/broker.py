"""Connections of the coordinator's processes to the broker."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.settings import CoordinatorSettings, password_file
from fleetledger.schemas.settings_file import find_secret
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers.mosquitto_configuration import LOOPBACK
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.tls import find_tls


def mqtt_settings(home: Path, settings: CoordinatorSettings, *, role: str) -> MqttSettings:
    """Return how the coordinator connects: to the listener of this machine, where there is one.

    Raises `SettingsError` for a wrong password file, and `TlsError` for wrong certificates.
    """
    user, local = settings.broker.username, settings.broker.local
    if local is not None:
        return MqttSettings(
            client_id=fresh_client_id(user, role),
            host=LOOPBACK,
            port=local.port,
            user=user,
            password=find_secret(home, local.password_file),
        )
    password = password_file(home, settings)
    return MqttSettings(
        client_id=fresh_client_id(user, role),
        host=settings.broker.host,
        port=settings.broker.port,
        user=user if password is not None else None,
        password=password,
        tls=find_tls(settings.broker.tls, home, user),
    )

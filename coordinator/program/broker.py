"""Connections of the coordinator's processes to the broker."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.runtime.settings_file import find_secret
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers.mosquitto_configuration import LOOPBACK
from fleetledger.transport.mqtt_settings import MqttSettings, settings_by_role


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
    return settings_by_role(settings.broker, home, user)(role)

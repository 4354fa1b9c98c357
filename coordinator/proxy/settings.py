"""Settings of a proxy: one TOML file in its home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fleetledger.runtime.commented_toml import write_new_settings
from fleetledger.runtime.settings_file import load_settings
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import FleetId
from fleetledger.transport.mqtt_settings import BrokerSettings

FILE_NAME = "proxy.toml"
HOME_VARIABLE = "FLEETLEDGER_PROXY"
DEFAULT_HOME = "proxy-home"
MEGABYTE = 1_000_000
_TITLE = "Settings of a fleetledger proxy; whom to keep it from, and what it is: docs/proxy.md."


class ProxyBrokerSettings(BrokerSettings):
    """Where the MQTT broker is; the proxy's user name there is always `proxy`."""


class Limits(Strict):
    """How much devices may leave here."""

    payload_megabytes: float = Field(default=64, gt=0, le=1000)
    """Most megabytes of one device's gradients; larger ones are refused, and not fetched."""
    waiting_megabytes: float = Field(default=1024, gt=0, le=100_000)
    """Most megabytes of all gradients that wait for a score."""


class ProxyHomeSettings(Strict):
    """Everything that whoever runs the proxy may set."""

    fleet: FleetId
    """Name of the fleet."""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """Where pictures are searched for and models scored: "cpu", "cuda", or "auto", a GPU where
    there is one."""
    broker: ProxyBrokerSettings = ProxyBrokerSettings()
    limits: Limits = Limits()


def load(home: Path) -> ProxyHomeSettings:
    """Read the settings of the proxy that lives in `home`; raise `SettingsError`."""
    return load_settings(home / FILE_NAME, ProxyHomeSettings)


def write_new(home: Path, settings: ProxyHomeSettings) -> Path:
    """Write a commented settings file into `home`; raise `SettingsError` if there is one."""
    return write_new_settings(home / FILE_NAME, settings, _TITLE)

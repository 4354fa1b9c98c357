"""Settings of a proxy: one TOML file in its home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fleetledger.schemas.commented_toml import commented_toml
from fleetledger.schemas.message import Strict
from fleetledger.schemas.private_file import make_home
from fleetledger.schemas.settings_file import SettingsError, find_secret, load_settings
from fleetledger.schemas.values import FleetId
from fleetledger.schemas.whole_file import write_whole
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


def password_file(home: Path, settings: ProxyHomeSettings) -> Path | None:
    """Return the file of the broker password, or None where none is set; raise `SettingsError`."""
    return find_secret(home, settings.broker.password_file)


def write_new(home: Path, settings: ProxyHomeSettings) -> Path:
    """Write a commented settings file into `home`; raise `SettingsError` if there is one."""
    path = home / FILE_NAME
    if path.exists():
        raise SettingsError(f"{path}: exists already; edit it, or choose another --home")
    try:
        make_home(home)
        write_whole(path, commented_toml(settings, _TITLE))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error
    return path

"""Settings of a proxy: one TOML file in its home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fleetledger.schemas.message import Strict
from fleetledger.schemas.private_file import make_home
from fleetledger.schemas.settings_file import SettingsError, find_secret, load_settings
from fleetledger.schemas.toml_text import toml_value
from fleetledger.schemas.values import FleetId
from fleetledger.schemas.whole_file import write_whole
from fleetledger.transport.mqtt_settings import BrokerHost
from fleetledger.transport.tls import TLS_LINES, TlsSettings

FILE_NAME = "proxy.toml"
HOME_VARIABLE = "FLEETLEDGER_PROXY"
DEFAULT_HOME = "proxy-home"
MEGABYTE = 1_000_000


class ProxyBrokerSettings(Strict):
    """Where the MQTT broker is; the proxy's user name there is always `proxy`."""

    host: BrokerHost = "127.0.0.1"
    port: int = Field(default=1883, ge=1, le=65535)
    password_file: Path | None = None
    tls: TlsSettings | None = None
    """Left out, the connection is not encrypted."""


class Limits(Strict):
    """How much devices may leave here."""

    payload_megabytes: float = Field(default=64, gt=0, le=1000)
    """Of one device at one time."""
    waiting_megabytes: float = Field(default=1024, gt=0, le=100_000)
    """Of all that wait for a score."""


class ProxyHomeSettings(Strict):
    """Everything that whoever runs the proxy may set."""

    fleet: FleetId
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """Where pictures are searched for and models scored; `auto` takes a GPU where there is one."""
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
    broker, limits = settings.broker, settings.limits
    password = (
        "# password_file = 'proxy.password'   # one line, mode 0600"
        if broker.password_file is None
        else f"password_file = {toml_value(str(broker.password_file))}"
    )
    text = _TEMPLATE.format(
        fleet=toml_value(settings.fleet),
        device=settings.device,
        host=toml_value(broker.host),
        port=broker.port,
        password=password,
        tls=TLS_LINES if broker.tls is None else broker.tls.toml(),
        limits=limits,
    )
    if path.exists():
        raise SettingsError(f"{path}: exists already; edit it, or choose another --home")
    try:
        make_home(home)
        write_whole(path, text)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error
    return path


_TEMPLATE = """\
# Settings of a fleetledger proxy; docs/proxy.md says what it is, and whom it must be kept from.
fleet = {fleet}
device = "{device}"                # cuda, or auto: pictures are searched for on a GPU

[broker]                      # the user name there is always "proxy"
host = {host}
port = {port}
{password}

{tls}

[limits]
payload_megabytes = {limits.payload_megabytes}      # larger gradients are refused, and not fetched
waiting_megabytes = {limits.waiting_megabytes}    # room for gradients that wait for a score
"""

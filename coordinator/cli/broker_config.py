"""`fleetledger coordinator broker-config`: everything that a Mosquitto needs to serve the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.cli.common import HOME, Home
from coordinator.settings import FILE_NAME, CoordinatorSettings, load
from coordinator.topics.devices import views as device_views
from schemas.envelope import COORDINATOR
from schemas.settings_file import SettingsError
from schemas.values import DeviceId
from transport.brokers.folder import CONFIGURATION, SECRETS, BrokerFolder, write_broker_folder
from transport.brokers.mosquitto_configuration import read_certificates


def broker_config(
    out: Annotated[Path, typer.Option(help="Folder to write to.", file_okay=False)],
    place: Annotated[
        Path | None,
        typer.Option(help="Where the folder will be on the broker's host; by default where it is."),
    ] = None,
    certificate_file: Annotated[
        Path | None,
        typer.Option(help="The broker's certificate on its host; with it the broker speaks TLS."),
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="The key of that certificate.")] = None,
    client_ca_file: Annotated[
        Path | None,
        typer.Option(help="CA of the users' certificates, which then replace their passwords."),
    ] = None,
    home: Home = HOME,
) -> None:
    """Write a Mosquitto configuration for the devices that were admitted."""
    settings = load(home)
    _check_user(home, settings)
    what = BrokerFolder(
        folder=out,
        place=(place or out).absolute(),
        port=settings.broker.port,
        devices=[DeviceId(row.device) for row in device_views.devices(home)],
        certificates=read_certificates(
            *(_absolute(file) for file in (certificate_file, key_file, client_ca_file))
        ),
    )
    write_broker_folder(what)
    console = Console()
    for line in _words(what):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _check_user(home: Path, settings: CoordinatorSettings) -> None:
    if settings.broker.username != COORDINATOR:
        raise SettingsError(
            f"{home / FILE_NAME}: broker.username: {settings.broker.username!r}: the access rules "
            f"know the coordinator as {str(COORDINATOR)!r}; set that, or leave it out"
        )


def _absolute(file: Path | None) -> Path | None:
    """Return the path as Mosquitto needs it, wherever it is started."""
    return None if file is None else file.absolute()


def _words(what: BrokerFolder) -> Iterator[str]:
    yield f"wrote {what.folder}: a Mosquitto for {len(what.devices)} devices, port {what.port}"
    start = f"mosquitto -c {what.place / CONFIGURATION}"
    if what.place == what.folder.absolute():
        yield f"1. Start it here, not as root: {start}"
    else:
        yield (
            f"1. Copy {what.folder} without {SECRETS}/ to {what.place} on the broker's host; "
            f"there: chown -R mosquitto: {what.place}; then start {start}"
        )
    yield f"2. {_login(what)}"
    if not what.by_certificate:
        yield (
            "3. After the next admit run this again with the same folder, copy again, and send "
            "the broker a SIGHUP; secrets that are there stay as they are"
        )
    if what.certificates is None:
        yield (
            "Without --certificate-file and --key-file nothing is encrypted, so it listens on "
            "its own host alone (127.0.0.1)"
        )


def _login(what: BrokerFolder) -> str:
    if what.by_certificate:
        return (
            "Give each user (coordinator, proxy, every device) a certificate of that CA whose "
            "common name is the user's name, and name it in [broker.tls] of its settings"
        )
    return (
        f"Copy {what.folder / SECRETS}/NAME to the home of NAME (coordinator, proxy, every device) "
        'as broker.password, mode 0600, and set password_file = "broker.password" in its [broker]'
    )

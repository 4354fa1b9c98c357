"""`fleetledger coordinator broker-config`: everything that a Mosquitto needs to serve the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator.cli.common import done
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.program.broker_folders import KnownBroker
from fleetledger.coordinator.provisioning.broker_access import local_port_of, write_access
from fleetledger.coordinator.settings import (
    CoordinatorSettings,
    LocalBrokerSettings,
    load,
)
from fleetledger.runtime.command_output import AsJson
from fleetledger.runtime.commented_toml import section_toml
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.transport.brokers.folder import (
    BROKER_LOG,
    CONFIGURATION,
    SECRETS,
    SERVICE_LIMITS,
    STATE,
    BrokerFolder,
)
from fleetledger.transport.brokers.mosquitto_configuration import read_certificates

LocalPort = Annotated[
    int | None,
    typer.Option(
        help="Port of a listener on the broker's host for the coordinator alone; by default the "
        "next one where the folder stays here, 0 for none.",
        metavar="PORT",
        min=0,
        max=65535,
    ),
]


def broker_config(  # noqa: PLR0913, PLR0917 - each is one option of the command line
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
    local_port: LocalPort = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a Mosquitto configuration for the devices that were admitted."""
    settings = load(home)
    _check_user(home, settings)
    certificates = read_certificates(
        *(
            (None if file is None else file.absolute())
            for file in (certificate_file, key_file, client_ca_file)
        )
    )
    known = KnownBroker(
        folder=out.absolute(),
        place=(place or out).absolute(),
        certificate_file=certificates and certificates.certificate_file,
        key_file=certificates and certificates.key_file,
        client_ca_file=certificates and certificates.client_ca_file,
        local_port=local_port_of(settings, local_port, here=place is None),
    )
    what = replace(write_access(home, known), folder=out)
    done(*_words(settings, what), as_json=as_json, wrote=[what.folder])


def _check_user(home: Path, settings: CoordinatorSettings) -> None:
    if settings.broker.username != COORDINATOR:
        raise SettingsError(
            f"{home / FILE_NAME}: broker.username: {settings.broker.username!r}: the access rules "
            f"know the coordinator as {str(COORDINATOR)!r}; set that, or leave it out"
        )


def _words(settings: CoordinatorSettings, what: BrokerFolder) -> Iterator[str]:
    yield (
        f"wrote {what.folder}: a Mosquitto for {count_of(len(what.devices), 'device')}, port "
        f"{what.port}"
    )
    start = f"mosquitto -c {what.place / CONFIGURATION}"
    if what.here:
        yield f"1. Start it here: {start}   (its log is {what.place / STATE / BROKER_LOG})"
    else:
        yield (
            f"1. Copy {what.folder} without {SECRETS}/ to {what.place} on the broker's host; "
            f"there: chown -R mosquitto: {what.place}; then start {start}"
        )
    yield (
        f"   As a service it wants {what.place / SERVICE_LIMITS} in "
        "/etc/systemd/system/mosquitto.service.d/, for as many connections as neighbours may open"
    )
    yield f"2. {_login(what)}"
    if what.local_port is not None and settings.broker.local is None:
        local = LocalBrokerSettings(port=what.local_port).model_dump(mode="json")
        section = section_toml("broker.local", local).replace("\n", "   ")
        yield (
            "   A coordinator on the broker's host gets in when devices have taken all connections "
            f"of theirs, with this in its settings: {section}"
        )
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

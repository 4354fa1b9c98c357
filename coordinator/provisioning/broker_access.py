"""Who may log in at the fleet's Mosquitto: its folder is written again from the ledger.

The home remembers each folder that `broker-config` or `provision` wrote, with the options it was
written with. So whoever shuts a device out has the folder follow, and the broker read it again:
Mosquitto then ends the sessions of passwords that count no more. A session by a certificate stays
until it ends by itself, and may publish and receive nothing meanwhile.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.program import broker_folders
from fleetledger.coordinator.settings import CoordinatorSettings, load
from fleetledger.coordinator.topics.devices import views as device_views
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.access import shuts_out
from fleetledger.transport.brokers import folder
from fleetledger.transport.brokers.mosquitto_configuration import ServerCertificates
from fleetledger.transport.brokers.private_files import write_secret

AUTHORITY, BROKER, DEVICES = "ca", "broker", "devices"
"""Folders of `provision`."""
REVOCATIONS = "crl.pem"
RELOAD = "systemctl reload mosquitto"


def local_port_of(settings: CoordinatorSettings, wanted: int | None, *, here: bool) -> int | None:
    """Return the port of the coordinator's own listener, None for none; `wanted` is 0 then.

    By default it is that of the settings, or where the broker is here the one after the devices'.
    """
    if wanted is not None:
        return wanted or None
    if settings.broker.local is not None:
        return settings.broker.local.port
    return settings.broker.port + 1 if here and settings.broker.port < 65535 else None


def write_access(home: Path, broker: broker_folders.KnownBroker) -> folder.BrokerFolder:
    """Write the folder for the devices that the ledger lets in, and remember it in the home.

    Raises `BrokerFilesError` for what cannot be read or written.
    """
    keys = device_views.keys(home)
    revoked = [name for name, key in keys.items() if key == "revoked"]
    shut_out = sorted({*revoked, *device_views.retired_names(home)})
    settings = load(home)
    what = folder.BrokerFolder(
        folder=broker.folder,
        place=broker.place,
        port=settings.broker.port,
        fleet=settings.fleet,
        devices=[name for name, key in keys.items() if key != "revoked"],
        shut_out=shut_out,
        certificates=_certificates(broker, settings.fleet, shut_out),
        local_port=broker.local_port,
    )
    folder.write_broker_folder(what)
    broker_folders.remember_broker(home, broker)
    return what


def _certificates(
    broker: broker_folders.KnownBroker, fleet: str, shut_out: list[DeviceId]
) -> ServerCertificates | None:
    if broker.certificate_file is None or broker.key_file is None:
        return None
    revoked = None
    if broker.kits is not None and broker.client_ca_file is not None:
        from fleetledger.transport.brokers.authority import Authority  # noqa: PLC0415 - it makes certificates

        text = Authority.of(broker.kits / AUTHORITY, fleet).revoke(shut_out)
        write_secret(broker.folder / REVOCATIONS, text)
        revoked = broker.place / REVOCATIONS
    return ServerCertificates(
        broker.certificate_file, broker.key_file, broker.client_ca_file, revoked
    )


def close_access(home: Path) -> Iterator[str]:
    """Take devices that are shut out from every broker's folder; yield what happened, in lines.

    The ledger says who they are. Kits of theirs are deleted. A broker that runs here from the
    folder reads it again; of any other the command is told.
    """
    known = broker_folders.known_brokers(home)
    if not known:
        yield (
            "no folder of `broker-config` is known in this home: delete the device's password and "
            "rules at the broker yourself, and reload it"
        )
    for broker in known:
        what = write_access(home, broker)
        for device in what.shut_out:
            if broker.kits is not None:
                shutil.rmtree(broker.kits / DEVICES / device, ignore_errors=True)
        yield reloaded(broker, what, "no longer let it in")
        if what.by_certificate:
            yield (
                "broker: a session that is open by a certificate may do nothing any more; it ends "
                "with the next `systemctl restart mosquitto` at the latest"
            )


def open_access(home: Path) -> Iterator[str]:
    """Let devices in again that are admitted and that a broker's folder shuts out; yield lines.

    What they logged in with counts no more. Kits are made by `provision` alone, which is told of.
    """
    for broker in broker_folders.known_brokers(home):
        rules = _text(broker.folder / folder.ACCESS)
        back = [
            name
            for name, key in device_views.keys(home).items()
            if key != "revoked" and shuts_out(rules, name)
        ]
        if not back:
            continue
        if broker.kits is not None:
            yield (
                f"broker: what {some(back)} logged in with counts no more: `fleetledger "
                f"coordinator provision TABLE --out {quote(str(broker.kits))}` makes a new kit, "
                "and `fleetledger agent install FOLDER` on the device takes it over"
            )
            continue
        what = write_access(home, broker)
        yield reloaded(broker, what, "let it in again")
        for device in set(back).intersection(what.users_with_passwords):
            secret = broker.folder / folder.SECRETS / device
            yield f"broker: {device} has a new password, in {secret}: copy it to the device"


def access_of(broker: broker_folders.KnownBroker) -> str:
    """Return what the folder says of who is let in; empty where it is not written yet."""
    return _text(broker.folder / folder.ACCESS) + _text(broker.folder / folder.PASSWORDS)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def reloaded(broker: broker_folders.KnownBroker, what: folder.BrokerFolder, done: str) -> str:
    """Have the broker read its folder again where it runs here; return what is left to do.

    `done` is what the files do, as in "let it in".
    """
    files = [folder.PASSWORDS] if what.users_with_passwords else []
    files += [folder.ACCESS, *([REVOCATIONS] if (broker.folder / REVOCATIONS).exists() else [])]
    named = f"{', '.join(files)} of {broker.folder}"
    if not broker.here:
        return f"broker: copy {named} to {broker.place} on its host, and there: {RELOAD}"
    if _hang_up(broker.folder / folder.STATE / folder.PROCESS):
        return f"broker: {named} {done}, and the broker read them"
    running = broker.folder / folder.STATE / folder.PROCESS
    return (
        f"broker: {named} {done}; now run: {RELOAD}   (or, where it is no service: kill -HUP "
        f"$(cat {running}))"
    )


def _hang_up(process_file: Path) -> bool:
    """Have the Mosquitto of this folder read its files again; return whether it runs here."""
    try:
        process = int(process_file.read_text(encoding="ascii"))
        name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
        if name != "mosquitto":
            return False
        os.kill(process, signal.SIGHUP)
    except (OSError, ValueError):
        return False
    return True

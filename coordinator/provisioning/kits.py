"""Makes kits: admits devices, makes their certificates or passwords, and a folder for each.

    ca/            the fleet's CA; its key never leaves this folder
    broker/        a Mosquitto for the fleet, as `broker-config` writes it, with its certificate
    devices/NAME/  a kit, see `schemas.kits`
    proxy/         the certificate of the proxy's user, where users have certificates

- A kit that is there is left as it is, so a longer table gives kits to new devices alone.
- A kit comes about as a whole, after the ledger has its token; a run that was killed is run again.
- A device that the coordinator refuses keeps no other from its kit.
- A device that has enrolled gets none once its kit was deleted, as long as the broker lets it in.
  Where what it logged in with was taken back, it gets one without a token: it has its key.
- A device that was retired gets none before it is admitted again.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.errors import CommandError, ProvisionError
from fleetledger.coordinator.paths import FILE_NAME, ledger_path
from fleetledger.coordinator.program.broker_folders import KnownBroker
from fleetledger.coordinator.program.command_client import send_all
from fleetledger.coordinator.program.tokens import Invited, invite_all
from fleetledger.coordinator.provisioning.broker_access import (
    AUTHORITY,
    BROKER,
    DEVICES,
    access_of,
    local_port_of,
    reloaded,
    write_access,
)
from fleetledger.coordinator.provisioning.device_table import NO_DATA, TableRow
from fleetledger.coordinator.settings import (
    CoordinatorSettings,
    LocalBrokerSettings,
    load,
)
from fleetledger.coordinator.topics.devices import views as device_views
from fleetledger.coordinator.topics.devices.commands import TagDevices
from fleetledger.coordinator.topics.releases.views import newest_root
from fleetledger.runtime.commented_toml import section_toml
from fleetledger.runtime.systemd_units import DEVICE_UNITS, ServiceUnit
from fleetledger.schemas import kits
from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers.authority import Authority, Issued, names_of
from fleetledger.transport.brokers.folder import SECRETS, BrokerFolder
from fleetledger.transport.brokers.private_files import make_private_folder, write_secret
from fleetledger.transport.certificates import ends_soon
from fleetledger.transport.tls import TlsSettings

SERVER_CERTIFICATE, SERVER_KEY = "server.pem", "server.key"


@dataclass(frozen=True)
class Provisioning:
    """Where kits are made, and for which broker."""

    home: Path
    out: Path
    host: str | None = None
    """Of the broker, as devices reach it; the coordinator's own if left out."""
    further_names: tuple[str, ...] = ()
    """Host names and addresses that the broker's certificate has besides."""
    place: Path | None = None
    """Where the folder of the broker will be on its host; where it is if left out."""
    local_port: int | None = None
    """Of the coordinator's listener on the broker's host; the next port if left out and the broker
    is here, 0 for none."""
    passwords: bool = False
    """Whether users log in by password over TLS, and not by a certificate."""
    hours: float = 720.0
    """How long a token may be used."""


@dataclass(frozen=True)
class Provisioned:
    """What came of it."""

    made: tuple[DeviceId, ...]
    there: tuple[DeviceId, ...]
    """Devices that had their kits before."""
    refused: Mapping[DeviceId, str]
    broker: BrokerFolder
    has_root: bool
    enrolled: tuple[DeviceId, ...] = ()
    """Devices that have enrolled and log in, whose kits were deleted."""
    renewed: tuple[DeviceId, ...] = ()
    """Devices among `made` whose kits have no token."""
    retired: tuple[DeviceId, ...] = ()
    """Devices that were taken out of the fleet."""
    reloaded: str = ""
    """What became of a broker that was there, where it lets in others than before."""
    coordinator_changed: bool = False
    """Whether `coordinator.toml` was given the CA and the coordinator's certificate."""
    entries: tuple[int, ...] = ()
    """Those that it made in the ledger."""


@dataclass(frozen=True)
class _Making:
    """What all kits of one run share."""

    what: Provisioning
    settings: CoordinatorSettings
    authority: Authority
    broker: BrokerFolder
    root: bytes | None
    passwords: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.what.host or self.settings.broker.host


def provision(what: Provisioning, rows: Sequence[TableRow]) -> Provisioned:
    """Make kits for the devices that have none.

    Raises `ProvisionError` and `SettingsError` before anything is done, `BrokerFilesError` for what
    cannot be written.
    """
    settings = load(what.home)
    _check(what, settings)
    make_private_folder(what.out)
    make_private_folder(what.out / DEVICES)
    authority = Authority.of(what.out / AUTHORITY, settings.fleet)
    table = _Sorted.of(what, authority, rows)
    invited: dict[DeviceId, Invited | str] = {}
    if table.new:
        invited = invite_all(what.home, [row.device for row in table.new], what.hours)
    refused = {name: text for name, text in invited.items() if isinstance(text, str)}
    tagged = _tag(what.home, [row for row in table.new if row.device not in refused])
    root = newest_root(what.home)
    broker, told = _write_broker(what, settings, authority)
    making = _Making(
        what,
        settings,
        authority,
        broker,
        None if root is None else root.canonical_bytes() + b"\n",
        _passwords(broker),
    )
    changed = _equip_coordinator(making)
    made = [row for row in (*table.new, *table.renewed) if row.device not in refused]
    tokens = {name: found for name, found in invited.items() if isinstance(found, Invited)}
    for row in made:
        found = tokens.get(row.device)
        _write_kit(making, row, None if found is None else found.token)
    return Provisioned(
        made=_names(made),
        there=_names(table.there),
        refused=refused,
        broker=broker,
        has_root=root is not None,
        enrolled=_names(table.enrolled),
        renewed=_names(table.renewed),
        retired=_names(table.retired),
        reloaded=told,
        coordinator_changed=changed,
        entries=(*(index for found in tokens.values() for index in found.entries), *tagged),
    )


@dataclass(frozen=True)
class _Sorted:
    """Rows of a table by what their devices need."""

    there: list[TableRow] = field(default_factory=list)
    new: list[TableRow] = field(default_factory=list)
    enrolled: list[TableRow] = field(default_factory=list)
    renewed: list[TableRow] = field(default_factory=list)
    retired: list[TableRow] = field(default_factory=list)

    @classmethod
    def of(cls, what: Provisioning, authority: Authority, rows: Sequence[TableRow]) -> _Sorted:
        found, keys, retired = cls(), dict[DeviceId, str](), list[DeviceId]()
        if ledger_path(what.home).exists():
            keys = device_views.keys(what.home)
            retired = device_views.retired_names(what.home)
        for row in rows:
            has_key = keys.get(row.device, "") not in {"", "invited", "revoked"}
            if row.device in retired:
                found.retired.append(row)
            elif (_kit_folder(what, row.device) / kits.KIT_FILE).exists():
                found.there.append(row)
            elif not has_key:
                found.new.append(row)
            elif _logs_in(what, authority, row.device):
                found.enrolled.append(row)
            else:
                found.renewed.append(row)
        return found


def _logs_in(what: Provisioning, authority: Authority, device: DeviceId) -> bool:
    """Return whether something counts that a device was given to log in at the broker."""
    if what.passwords:
        return (what.out / BROKER / SECRETS / device).exists()
    return authority.certifies(device)


def _names(rows: Iterable[TableRow]) -> tuple[DeviceId, ...]:
    return tuple(row.device for row in rows)


def _check(what: Provisioning, settings: CoordinatorSettings) -> None:
    file = what.home / FILE_NAME
    if settings.broker.username != COORDINATOR:
        raise ProvisionError(
            f"{file}: broker.username: {settings.broker.username!r}: the access rules know the "
            f"coordinator as {str(COORDINATOR)!r}; set that, or leave it out"
        )
    if what.passwords and settings.broker.password_file is None:
        raise ProvisionError(
            f"{file}: broker.password_file: is missing; set password_file = "
            f'"{kits.KIT_PASSWORD_FILE}" below [broker], and the password is put there'
        )
    if (what.out / BROKER).exists() and what.passwords == (what.out / PROXY).exists():
        raise ProvisionError(
            f"{what.out}: its kits log in by {'certificate' if what.passwords else 'password'}; "
            "choose the same --login, or another --out"
        )


def _tag(home: Path, rows: Sequence[TableRow]) -> tuple[int, ...]:
    """Put the tags of the table on devices; those with the same tags share an entry."""
    alike: dict[tuple[tuple[TagName, TagValue], ...], list[DeviceId]] = defaultdict(list)
    for row in rows:
        alike[tuple(sorted(row.tags.items()))].append(row.device)
    commands: list[Command] = [
        TagDevices(devices=tuple(devices), put=dict(tags))
        for tags, devices in alike.items()
        if tags
    ]
    if not commands:
        return ()
    answers = send_all(home, commands)
    wrong = [answer.text for answer in answers if not answer.done]
    if wrong:
        raise CommandError("; ".join(wrong))
    return tuple(index for answer in answers for index in answer.entries)


def _write_broker(
    what: Provisioning, settings: CoordinatorSettings, authority: Authority
) -> tuple[BrokerFolder, str]:
    """Write the broker's folder; return what became of a broker that lets in others than before."""
    folder = what.out / BROKER
    make_private_folder(folder)
    wanted = {settings.broker.host, what.host or settings.broker.host, *what.further_names}
    known = set(names_of(folder / SERVER_CERTIFICATE))
    renews = ends_soon(folder / SERVER_CERTIFICATE, time.time_ns())
    if renews or not wanted <= known or not (folder / SERVER_KEY).exists():
        _write_issued(
            authority.server(sorted(wanted | known)),
            folder / SERVER_CERTIFICATE,
            folder / SERVER_KEY,
        )
    write_secret(folder / kits.CA_FILE, authority.certificate)
    place = (what.place or folder).absolute()
    written = KnownBroker(
        folder=folder.absolute(),
        place=place,
        certificate_file=place / SERVER_CERTIFICATE,
        key_file=place / SERVER_KEY,
        client_ca_file=None if what.passwords else place / kits.CA_FILE,
        local_port=local_port_of(settings, what.local_port, here=what.place is None),
        kits=what.out.absolute(),
    )
    before = access_of(written)
    broker = write_access(what.home, written)
    if before in {"", access_of(written)}:
        return broker, ""
    return broker, reloaded(written, broker, "are new")


def _passwords(broker: BrokerFolder) -> dict[str, str]:
    """Return the text of the password file of each user who has one."""
    secrets = broker.folder / SECRETS
    return {
        user: (secrets / user).read_text(encoding="utf-8") for user in broker.users_with_passwords
    }


def _equip_coordinator(making: _Making) -> bool:
    """Give coordinator and proxy what they log in with; return whether settings were changed."""
    home, settings = making.what.home, making.settings
    folder = making.what.out / PROXY
    certificate, key = folder / f"{PROXY}.pem", folder / f"{PROXY}.key"
    if not making.what.passwords and not certificate.exists():
        make_private_folder(folder)
        write_secret(folder / kits.CA_FILE, making.authority.certificate)
        _write_issued(making.authority.user(PROXY), certificate, key)
    _certify_files(making)
    sections: dict[str, TlsSettings | LocalBrokerSettings] = {}
    if settings.broker.tls is None:
        write_secret(home / kits.CA_FILE, making.authority.certificate)
        tls = TlsSettings(ca_file=Path(kits.CA_FILE))
        if not making.what.passwords:
            names = Path(f"{COORDINATOR}.pem"), Path(f"{COORDINATOR}.key")
            _write_issued(making.authority.user(COORDINATOR), *(home / name for name in names))
            tls = TlsSettings(
                ca_file=Path(kits.CA_FILE), certificate_file=names[0], key_file=names[1]
            )
        sections["broker.tls"] = tls
    local = settings.broker.local
    if local is None and making.broker.local_port is not None:
        local = LocalBrokerSettings(port=making.broker.local_port)
        sections["broker.local"] = local
    files = {settings.broker.password_file, None if local is None else local.password_file}
    for password in files - {None}:
        assert password is not None
        if COORDINATOR in making.passwords and not (home / password).exists():
            write_secret(home / password, making.passwords[COORDINATOR])
    if not sections:
        return False
    file = home / FILE_NAME
    mode = file.stat().st_mode & 0o777
    text = file.read_text(encoding="utf-8").rstrip()
    for name, section in sections.items():
        text += f"\n\n{section_toml(name, section.model_dump(mode='json', exclude_none=True))}"
    write_secret(file, f"{text}\n")
    file.chmod(mode)
    return True


def _certify_files(making: _Making) -> None:
    """Give the coordinator a certificate for the names at which devices fetch files, by HTTPS.

    Those are the broker's, unless the settings name another; one that is there and counts stays.
    """
    files, home = making.settings.files, making.what.home
    certificate, key = home / files.certificate_file, home / files.key_file
    wanted = {files.host} if files.host is not None else {making.host, making.settings.broker.host}
    known = set(names_of(certificate))
    if not key.exists() or not wanted <= known or ends_soon(certificate, time.time_ns()):
        _write_issued(making.authority.server(sorted(wanted | known)), certificate, key)


def _kit_folder(what: Provisioning, device: DeviceId) -> Path:
    return what.out / DEVICES / device


def _write_kit(making: _Making, row: TableRow, token: Token | None) -> None:
    """Write a kit beside its place, and move it there once it is whole."""
    scratch = making.what.out / DEVICES / f".{row.device}.new"
    if scratch.exists():
        shutil.rmtree(scratch)
    make_private_folder(scratch)
    for name, text in _kit_files(making, row, token):
        write_secret(scratch / name, text)
    place = _kit_folder(making.what, row.device)
    if place.exists():  # without a kit.toml it was never one
        shutil.rmtree(place)
    scratch.replace(place)


def _kit_files(making: _Making, row: TableRow, token: Token | None) -> Iterator[tuple[str, str]]:
    learns = making.settings.learning
    data = row.data or ("data" if learns else NO_DATA)
    kit = kits.Kit(
        device=row.device,
        fleet=making.settings.fleet,
        host=making.host,
        port=making.settings.broker.port,
        data=None if data == NO_DATA else data,
        evaluation=row.evaluation or None,
        variant=row.variant,
        files=making.settings.files.host,
    )
    yield kits.KIT_FILE, kit.toml()
    yield kits.CA_FILE, making.authority.certificate
    if row.device in making.passwords:
        yield kits.KIT_PASSWORD_FILE, making.passwords[row.device]
    else:
        issued = making.authority.user(row.device)
        yield kits.CERTIFICATE_FILE, issued.certificate
        yield kits.KEY_FILE, issued.key
    if token is not None:
        yield kits.TOKEN_FILE, f"{token.text}\n"
    if making.root is not None:
        yield kits.KIT_ROOT_FILE, making.root.decode("utf-8")
    for kind in DEVICE_UNITS:
        yield kind.file_name, ServiceUnit(kind).text()


def _write_issued(issued: Issued, certificate_file: Path, key_file: Path) -> None:
    write_secret(key_file, issued.key)
    write_secret(certificate_file, issued.certificate)

"""Folders that were written for a Mosquitto of this fleet, as the home remembers them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from pydantic import Field, TypeAdapter

from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.strict import Strict
from fleetledger.transport.certificates import CertificateWatch, WatchedCertificate, certificates_of
from fleetledger.transport.clock import Clock
from fleetledger.transport.errors import BrokerFilesError

FILE_NAME = "broker-folders.json"
_RENEW = (
    "no device connects after that; run `fleetledger coordinator provision` again, with the same "
    "table and folder, which renews it, and reload the broker"
)
_REPLACE = "no device connects after that; put a newer one there, and reload the broker"


class KnownBroker(Strict):
    """A folder for a Mosquitto, and how it was written."""

    folder: Path
    place: Path
    """Where it is on the broker's host."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    local_port: int | None = Field(default=None, ge=1, le=65535)
    kits: Path | None = None
    """Folder of `provision`, with the CA and the kits, where that wrote it."""

    @property
    def here(self) -> bool:
        """Whether the broker reads the folder where it was written."""
        return self.place == self.folder

    @property
    def certificate_here(self) -> Path | None:
        """The broker's certificate as this machine has it; None without TLS."""
        if self.certificate_file is None or self.kits is None:
            return self.certificate_file
        return self.folder / self.certificate_file.name


_KNOWN: TypeAdapter[tuple[KnownBroker, ...]] = TypeAdapter(tuple[KnownBroker, ...])


def known_brokers(home: Path) -> tuple[KnownBroker, ...]:
    """Return the folders that were written for the fleet; raise `BrokerFilesError`."""
    try:
        return _KNOWN.validate_json((home / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise BrokerFilesError(
            f"{home / FILE_NAME}: cannot be read: {error}; delete it, and run `fleetledger "
            "coordinator broker-config` again"
        ) from error


def remember_broker(home: Path, broker: KnownBroker) -> None:
    """Note a folder in the home, in the place of what was noted of it."""
    others = [known for known in known_brokers(home) if known.folder != broker.folder]
    write_private(home / FILE_NAME, _KNOWN.dump_json((*others, broker), indent=1))


def certificate_watch(home: Path, settings: CoordinatorSettings, clock: Clock) -> CertificateWatch:
    """Return the watch over the certificates of the fleet's brokers, and the coordinator's own."""
    return CertificateWatch(partial(_certificates, home, settings), clock)


def _certificates(home: Path, settings: CoordinatorSettings) -> Iterator[WatchedCertificate]:
    known: tuple[KnownBroker, ...] = ()
    if settings.broker.local is None:
        yield from certificates_of(settings.broker.tls, home, "put a newer one there")
    files = home / settings.files.certificate_file
    if settings.files.serve and files.exists():
        yield WatchedCertificate(
            files,
            "the certificate for serving files",
            "devices fetch by the broker after that; `fleetledger coordinator provision` renews it",
        )
    with suppress(BrokerFilesError):  # whoever writes the folders again says it
        known = known_brokers(home)
    for broker in known:
        file = broker.certificate_here
        if file is not None:
            way_out = _REPLACE if broker.kits is None else _RENEW
            yield WatchedCertificate(file, "the broker's certificate", way_out)

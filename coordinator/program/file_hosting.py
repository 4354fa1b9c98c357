"""The coordinator's own web server of files, and what its devices are told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.runtime.problems import OpenProblem
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.errors import ListenError, TlsError
from fleetledger.transport.file_host import FileHost, FileTokens, HostedFiles

log = logging.getLogger("coordinator.files")

FARTHER_PORTS = 2
"""From the broker's port to this one; the one between is the coordinator's own at the broker."""
_LOOPBACK = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}


@dataclass(frozen=True)
class HostedData:
    """What may be given to whom."""

    data: Callable[[Digest], Path | bytes | None]
    """Returns what is offered under a digest; None for anything else."""
    allows: Callable[[DeviceId], bool]


class HostedUrls:
    """Ports and paths at the coordinator, as long as its server runs."""

    def __init__(self, host: FileHost) -> None:
        self.host = host
        self._runs = False
        self._trouble = ""

    @property
    def sent(self) -> int:
        """Bytes of files that went this way."""
        return self.host.sent

    def start(self) -> None:
        """Listen; where that cannot be, devices have all files by the broker."""
        try:
            self.host.start()
        except (ListenError, TlsError) as error:
            self._trouble = f"files are served by the broker alone: {error}"
            log.warning("%s", self._trouble)
            return
        self._runs = True
        way = "HTTPS" if self.host.encrypted else "HTTP"
        log.info("files: served by %s at port %d", way, self.host.port)

    def stop(self) -> None:
        """End."""
        self._runs = False
        self.host.stop()

    def url(self, device: DeviceId, digest: Digest) -> str | None:
        """Return where a device may fetch a blob; None where the server does not run."""
        return self.host.url(device, digest) if self._runs else None

    def problems(self) -> Iterator[OpenProblem]:
        """Yield why it does not run."""
        if self._trouble:
            yield OpenProblem("files", self._trouble, key="host")


def hosted_urls(home: Path, settings: CoordinatorSettings, files: HostedData) -> HostedUrls | None:
    """Return the server of files by the settings, not yet at work; None for none.

    Where the broker speaks TLS, this does, too, with a certificate of the same authority; there is
    none without one.
    """
    section = settings.files
    if not section.serve or section.url is not None or section.store is not None:
        return None
    certificate = home / section.certificate_file, home / section.key_file
    encrypted = certificate[0].exists()
    if settings.broker.tls is not None and not encrypted:
        log.info(
            "files: served by the broker alone: %s is not there; `fleetledger coordinator "
            "provision` makes it",
            certificate[0],
        )
        return None
    port = section.port
    if port is None:
        port = settings.broker.port + FARTHER_PORTS
        port = port if port < 65536 else 0
    address = section.address
    if address is None:
        address = "" if encrypted else _LOOPBACK.get(settings.broker.host, "")
    tokens = FileTokens(section.seconds)
    what = HostedFiles(
        address, port, tokens, files.data, files.allows, certificate if encrypted else None
    )
    return HostedUrls(FileHost(what))

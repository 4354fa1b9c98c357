"""Source of blocks other than the peer, and the rules that allow it."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import SplitResult, urlsplit

from fleetledger.schemas.offers import MAX_URL, Offer
from fleetledger.transport.errors import BlockError, TlsError

if TYPE_CHECKING:
    import ssl

    from fleetledger.transport.tls import TlsFiles

log = logging.getLogger("transport.blocks")

REST_SECONDS = 300.0
"""For which a coordinator that is not reached by HTTP is not tried again."""
_PRINTABLE = re.compile(r"[!-~]+")


class AlternativeBlockSource(Protocol):
    """Brings missing blocks by another way than asking the peer for them."""

    @property
    def place(self) -> str:
        """Where from, for people; no secret is in it."""

    received: int
    """Bytes that came."""
    believed: bool
    """Whether its blocks are checked as a whole, like the peer's, and not each as it comes."""

    @property
    def ended(self) -> str | None:
        """Why nothing more comes, apart from what is to be taken; None as long as something may."""

    def taken(self) -> Iterator[tuple[int, bytes]]:
        """Yield index and bytes of the blocks that have come since."""

    def stop(self) -> None:
        """End; nothing more is taken."""


@dataclass(frozen=True)
class OwnHost:
    """The coordinator as a host of files, as this device reaches it."""

    name: str
    tls: TlsFiles | None = None
    """With what it is believed; None where it speaks plain HTTP, as the broker does then."""

    def url(self, place: str) -> str:
        """Return the whole URL of port and path there."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{'http' if self.tls is None else 'https'}://{name}{place}"

    def context(self) -> ssl.SSLContext | None:
        """Read the certificates; None where nothing is encrypted. Raises `TlsError`."""
        return None if self.tls is None else self.tls.context()


class OwnHostReach:
    """Whether the coordinator's host of files is reached; if not it has a rest, and is told once.

    It is asked and told by threads of their own, each of which writes one value.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._again = 0.0
        self._told = False

    def may_be_tried(self) -> bool:
        """Return whether it is worth to connect."""
        return self._clock() >= self._again

    def failed(self, place: str, why: str) -> None:
        """Note that there is no way to it."""
        self._again = self._clock() + REST_SECONDS
        if not self._told:
            self._told = True
            log.warning("files: %s is not reached (%s); they come by the broker", place, why)

    def reached(self) -> None:
        """Note that it has answered."""
        self._again, self._told = 0.0, False


@dataclass(frozen=True)
class HttpsRules:
    """From where files may be had by HTTP: by HTTPS from hosts, and from the coordinator."""

    hosts: frozenset[str] = frozenset()
    """Names of hosts; where it is empty, any that are reached by public addresses."""
    ca_file: Path | None = None
    """Certificates of the CAs that are believed; the system's where left out."""
    own: OwnHost | None = None
    """The coordinator; None where it is not asked."""

    def context(self) -> ssl.SSLContext:
        """Read the certificates; raise `TlsError` that names setting and file."""
        import ssl  # noqa: PLC0415 - only who fetches by HTTPS pays for it

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise TlsError(
                f"files.ca_file: {self.ca_file}: cannot be used ({error}); give the CA's "
                "certificate, in PEM"
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def allowed(self, url: str) -> SplitResult:
        """Return the parts of a URL that may be asked; raise `BlockError` for any other."""
        if len(url) > MAX_URL or not _PRINTABLE.fullmatch(url):
            raise BlockError("url: is too long, or not in printable ASCII")
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise BlockError(f"url: cannot be read: {error}") from error
        if parts.scheme != "https" or not host or parts.username is not None:
            raise BlockError(f"url: {parts.scheme}://{host} is not https://HOST; it is not asked")
        if self.hosts and host.lower() not in self.hosts:
            raise BlockError(f"files.hosts: {host} is not among them; it is not asked")
        return parts

    def connect(
        self,
        address: tuple[str, int],
        timeout: float | None = None,
        source_address: tuple[str, int] | None = None,
    ) -> socket.socket:
        """Connect as `socket.create_connection` does, to addresses that may be asked.

        A URL may lead into the network that a device stands in, or to the device itself, by an
        address or by a name that somebody else resolves. Only a host that the owner names may.
        Raises `BlockError` where no address is left, and `OSError`.
        """
        host, port = address
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(item[4][0]) for item in found]
        if host.lower() not in self.hosts:
            addresses = [one for one in addresses if _is_public(one)]
            if not addresses:
                raise BlockError(
                    f"files.hosts: {host} is in a private network or on this device, and is not "
                    "among them; it is not asked"
                )
        failure: OSError | None = None
        for one in addresses:
            try:
                return socket.create_connection((one, port), timeout, source_address)
            except OSError as error:
                failure = error
        raise failure or OSError(f"{host}: has no address")


def _is_public(address: str) -> bool:
    known = ipaddress.ip_address(address.partition("%")[0])
    mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return (mapped or known).is_global and not known.is_multicast


OpenAlternative: TypeAlias = "Callable[[Offer, Sequence[int]], AlternativeBlockSource | None]"
"""Begins to bring the missing blocks of an offer by another way; None where there is none."""

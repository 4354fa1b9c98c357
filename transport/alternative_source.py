"""Source of blocks other than the peer, and the rules that allow it."""

from __future__ import annotations

import ipaddress
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

_PRINTABLE = re.compile(r"[!-~]+")


class AlternativeBlockSource(Protocol):
    """Brings missing blocks by another way than asking the peer for them."""

    @property
    def place(self) -> str:
        """Where from, for people; no secret is in it."""

    received: int
    """Bytes that came."""

    @property
    def ended(self) -> str | None:
        """Why nothing more comes, apart from what is to be taken; None as long as something may."""

    def taken(self) -> Iterator[tuple[int, bytes]]:
        """Yield index and bytes of the blocks that have come since."""

    def stop(self) -> None:
        """End; nothing more is taken."""


@dataclass(frozen=True)
class HttpsRules:
    """From where files may be had by HTTPS."""

    hosts: frozenset[str] = frozenset()
    """Names of hosts; where it is empty, any that are reached by public addresses."""
    ca_file: Path | None = None
    """Certificates of the CAs that are believed; the system's where left out."""

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

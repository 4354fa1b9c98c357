"""URLs of large blobs for devices: at the coordinator, under a fixed prefix, or signed.

A URL is a hint. Whether something lies there nobody asks here: a device that finds nothing, or the
wrong thing, fetches through the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from fleetledger.coordinator.errors import BlobError
from fleetledger.coordinator.ledger.fsspec_store import FsspecStore
from fleetledger.coordinator.ledger.store import SMALL_BLOB_BYTES
from fleetledger.coordinator.settings import FilesSection
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.offers import FileUrl, Offer
from fleetledger.schemas.values import DeviceId, Digest

log = logging.getLogger("coordinator.files")

_REUSED_SHARE = 0.5
"""Of its life, in which a signed URL is told again instead of another one."""
_MOST_REMEMBERED = 1024


class FileUrls(Protocol):
    """Says where files lie."""

    def url(self, device: DeviceId, digest: Digest) -> str | None:
        """Return where a device may fetch a blob; None where that cannot be said."""


class PrefixUrls:
    """Blobs behind a web server or a CDN."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.rstrip("/")

    def url(self, device: DeviceId, digest: Digest) -> str | None:
        """Return where a blob may be fetched."""
        return f"{self._prefix}/{digest[:2]}/{digest}"


class SignedUrls:
    """Blobs in an object store, whose driver signs for a while."""

    def __init__(self, store: FsspecStore, seconds: int, clock: Callable[[], float]) -> None:
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self._signed: dict[Digest, tuple[str, float]] = {}
        """URLs, and until when each is told."""
        self._told = False

    def url(self, device: DeviceId, digest: Digest) -> str | None:
        """Return a URL that counts for at least half of the time; None where none can be made."""
        known = self._signed.get(digest)
        if known is not None and self._clock() < known[1]:
            return known[0]
        try:
            made = self._store.sign(digest, self._seconds)
        except BlobError as error:
            if not self._told:
                log.warning("files.store: devices are told no URLs: %s", error)
            self._told = True
            return None
        if len(self._signed) >= _MOST_REMEMBERED:
            self._signed.clear()
        self._signed[digest] = (made, self._clock() + _REUSED_SHARE * self._seconds)
        return made


def file_urls(settings: FilesSection, clock: Callable[[], float]) -> FileUrls | None:
    """Return where blobs lie by the settings; None for nowhere. Raises `BlobError`.

    `clock` gives seconds that never go back.
    """
    if settings.url is not None:
        return PrefixUrls(settings.url)
    if settings.store is not None:
        return SignedUrls(FsspecStore(settings.store), settings.seconds, clock)
    return None


def urls_of(offers: tuple[Offer, ...], places: FileUrls, device: DeviceId) -> tuple[FileUrl, ...]:
    """Return where the large ones of some offers lie: small blobs lie in the ledger."""
    made = []
    for offer in {item.digest: item for item in offers if item.size > SMALL_BLOB_BYTES}.values():
        url = places.url(device, offer.digest)
        if url is not None:
            made.append(_file_url(offer.digest, url))
    return tuple(item for item in made if item is not None)


def _file_url(digest: Digest, url: str) -> FileUrl | None:
    """Return a URL as it is told; None where it is none that devices would ask."""
    try:
        return FileUrl(digest=digest, url=url)
    except (SchemaError, ValueError) as error:
        log.warning("files: the URL of %s is not told: %s", digest.short, error)
        return None

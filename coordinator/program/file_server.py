"""Serves the files of models: whatever is offered to a device can be fetched from here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Protocol

from fleetledger.coordinator.errors import BlobError
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.program.file_urls import FileUrls, urls_of
from fleetledger.runtime.problems import OpenProblem
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import HTTPS, Offer
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import BlockError


class Server(Protocol):
    """The part of a block exchange that serves."""

    def serve(self, data: BlockSource) -> Offer:
        """Answer requests for the data from now on."""


class FileServer:
    """Registers files with the block exchange when they are first offered."""

    def __init__(
        self,
        server: Server,
        blobs: Callable[[], Blobs],
        urls: FileUrls | None = None,
        features_of: Callable[[DeviceId], Collection[str]] = lambda device: (),
    ) -> None:
        """With `urls` devices whose features have it are told where files lie by HTTP."""
        self._server = server
        self._blobs = blobs
        self._urls = urls
        self._features_of = features_of
        self._offered: set[Digest] = set()
        self._known: dict[Digest, Offer] = {}
        """Offers that were made here."""
        self._lacking: dict[Digest, tuple[Offer, str]] = {}
        """Files that devices are to have and that cannot be read, with why."""

    def problems(self) -> Iterator[OpenProblem]:
        """Yield which files devices are to have, and cannot be read."""
        for digest, (_, why) in sorted(self._lacking.items()):
            text = f"{why}; bring it back from a mirror or a backup, and devices are told of it"
            yield OpenProblem("files", text, hinders=True, key=digest)

    def found_again(self) -> bool:
        """Try what could not be read once more; return whether any of it can be."""
        before = len(self._lacking)
        for offer, _ in list(self._lacking.values()):
            with suppress(BlobError):
                self._offer(offer)
        return len(self._lacking) < before

    def offer_files_of(self, body: Message) -> None:
        """Serve every file that a message offers; raise `BlobError` if one cannot be had."""
        for offer in _offers(body):
            if offer.digest not in self._offered:
                self._offer(offer)

    def offer_of(self, digest: Digest) -> Offer:
        """Return the offer of a blob; raise `BlobError` if it cannot be had."""
        if digest not in self._known:
            self._known[digest] = BlockSource(self._blobs().get(digest)).offer
        return self._known[digest]

    def _offer(self, offer: Offer) -> None:
        try:
            self._server.serve(self._source(offer))
        except BlobError as error:
            self._lacking[offer.digest] = offer, str(error)
            raise
        self._offered.add(offer.digest)
        self._lacking.pop(offer.digest, None)

    def offered(self, body: Message, device: DeviceId) -> Message:
        """Serve what a message offers; return it with the URLs that its device is told.

        Raises `BlobError` if a file cannot be had.
        """
        self.offer_files_of(body)
        if self._urls is None or not isinstance(body, Assignment | DesiredModel):
            return body
        if HTTPS not in self._features_of(device):
            return body
        urls = urls_of(body.offers, self._urls, device)
        return body.model_copy(update={"urls": urls}) if urls else body

    def _source(self, offer: Offer) -> BlockSource:
        blobs = self._blobs()
        path = blobs.store.local_path(offer.digest)
        data = path if path is not None else blobs.get(offer.digest)
        try:
            return BlockSource.offered(data, offer)
        except (BlockError, OSError) as error:
            raise BlobError(f"blob {offer.digest.short}: cannot be served: {error}") from error


def _offers(body: Message) -> tuple[Offer, ...]:
    match body:
        case Assignment() | DesiredModel():
            return body.offers
        case ScoringOrder(weights=weights):
            return (weights,)
        case _:
            return ()

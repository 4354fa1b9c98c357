"""Serves the files of models: whatever is offered to a device can be fetched from here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from coordinator.errors import BlobError
from coordinator.ledger.blobs import Blobs
from coordinator.serving.file_urls import FileUrls, urls_of
from schemas.assignments import Assignment
from schemas.message import Message
from schemas.models import DesiredModel
from schemas.offers import HTTPS, Offer
from schemas.proxy import ScoringOrder
from schemas.values import DeviceId, Digest
from transport.block_source import BlockSource
from transport.errors import BlockError


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
        """With `urls` devices whose features have it are told where files lie by HTTPS."""
        self._server = server
        self._blobs = blobs
        self._urls = urls
        self._features_of = features_of
        self._offered: set[Digest] = set()

    def offer_files_of(self, body: Message) -> None:
        """Serve every file that a message offers; raise `BlobError` if one cannot be had."""
        for offer in _offers(body):
            if offer.digest not in self._offered:
                self._server.serve(self._source(offer))
                self._offered.add(offer.digest)

    def offered(self, body: Message, device: DeviceId) -> Message:
        """Serve what a message offers; return it with the URLs that its device is told.

        Raises `BlobError` if a file cannot be had.
        """
        self.offer_files_of(body)
        if self._urls is None or not isinstance(body, Assignment | DesiredModel):
            return body
        if HTTPS not in self._features_of(device):
            return body
        urls = urls_of(body.offers, self._urls)
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

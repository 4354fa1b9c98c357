"""Serves the files of models: whatever is offered to a device can be fetched from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordinator.errors import BlobError
from coordinator.ledger.blobs import Blobs
from schemas.assignments import Assignment
from schemas.message import Message
from schemas.models import DesiredModel
from schemas.offers import Offer
from schemas.proxy import ScoringOrder
from schemas.values import Digest
from transport.block_source import BlockSource
from transport.errors import BlockError


class Server(Protocol):
    """The part of a block exchange that serves."""

    def serve(self, data: BlockSource) -> Offer:
        """Answer requests for the data from now on."""


class FileServer:
    """Registers files with the block exchange when they are first offered."""

    def __init__(self, server: Server, blobs: Callable[[], Blobs]) -> None:
        self._server = server
        self._blobs = blobs
        self._offered: set[Digest] = set()

    def offer_files_of(self, body: Message) -> None:
        """Serve every file that a message offers; raise `BlobError` if one cannot be had."""
        for offer in _offers(body):
            if offer.digest not in self._offered:
                self._server.serve(self._source(offer))
                self._offered.add(offer.digest)

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
        case Assignment():
            return body.offers
        case ScoringOrder(weights=weights):
            return (weights,)
        case DesiredModel(manifest=manifest, files=files, variants=variants):
            return (manifest, *files, *(variant.frozen for variant in variants))
        case _:
            return ()

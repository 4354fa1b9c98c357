"""The giving end of a block transfer: answers requests and remembers nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path

from typing_extensions import Self

from fleetledger.schemas.envelope import MAX_ATTACHMENT_BYTES
from fleetledger.schemas.offers import (
    DEFAULT_BLOCK_SIZE,
    HASH_BYTES,
    BlockData,
    BlockRequest,
    Offer,
    Section,
)
from fleetledger.schemas.values import Digest
from fleetledger.transport.errors import BlockError

_MOST_DIGESTS = 20_000


class BlockSource:
    """Data that can be offered: some bytes, or a file that must not change while it is served."""

    def __init__(
        self,
        data: bytes | Path,
        block_size: int = DEFAULT_BLOCK_SIZE,
        *,
        digest: Digest | None = None,
    ) -> None:
        """Hash the data, as a whole and in blocks; whoever knows its `digest` spares the whole."""
        self._data = data
        self._digests: dict[tuple[Section, int, int], Digest] = {}
        whole, hashes, size = hashlib.sha256(), bytearray(), 0
        for block in _cut(data, block_size):
            if digest is None:
                whole.update(block)
            hashes += hashlib.sha256(block).digest()
            size += len(block)
        self._list = bytes(hashes)
        self.offer = Offer(
            digest=digest or Digest(whole.hexdigest()),
            size=size,
            block_size=block_size,
            list_digest=Digest.of(self._list),
        )

    @classmethod
    def offered(cls, data: bytes | Path, offer: Offer) -> Self:
        """Return the source of data that was offered before; each block is hashed once.

        The list of block hashes pins every byte, so the whole need not be hashed again. Raises
        `BlockError` where the data is not what was offered, `OSError` where it cannot be read.
        """
        source = cls(data, offer.block_size, digest=offer.digest)
        if source.offer != offer:
            raise BlockError(f"{offer.digest.short}…: the data is not what was offered")
        return source

    @property
    def data(self) -> bytes | Path:
        """What is offered: some bytes, or the file that has them."""
        return self._data

    def in_file(self, path: Path) -> BlockSource:
        """Return the source of the same data, which has just been written to a file."""
        source = copy(self)
        source._data = path
        return source

    def digest_of(self, label: BlockData, blocks: bytes) -> Digest:
        """Return the SHA-256 of what `answer` gave, of one block as it was when this was made.

        Many ask for the same, so several blocks are hashed together once.
        """
        if label.section == "data" and len(blocks) <= self.offer.block_size:
            start = label.index * HASH_BYTES
            return Digest.known(self._list[start : start + HASH_BYTES].hex())
        known = label.section, label.index, len(blocks)
        if known not in self._digests:
            if len(self._digests) >= _MOST_DIGESTS:
                self._digests.clear()
            self._digests[known] = Digest.of(blocks)
        return self._digests[known]

    def answer(self, request: BlockRequest) -> Iterator[tuple[BlockData, bytes]]:
        """Return wanted blocks with their bytes, of one message each; none are past the end.

        Where the request allows it a message has several, as many as fit. They begin at a multiple
        of that number, so that different requests are answered alike.

        Raises `BlockError` if the request is for other data or another block size, or if the file
        has changed or gone.
        """
        for index, count in _runs(request.indices, self.most_together(request)):
            yield from self.run(request, index, count)

    def run(
        self, request: BlockRequest, index: int, count: int
    ) -> Iterator[tuple[BlockData, bytes]]:
        """Return blocks that follow each other with their bytes; none if they are past the end."""
        block = self._blocks(request.section, index, count)
        if block:
            label = BlockData(digest=self.offer.digest, section=request.section, index=index)
            yield label, block

    def most_together(self, request: BlockRequest) -> int:
        """Return how many blocks a message to answer a request may have; raise as `answer` does."""
        if (request.digest, request.block_size) != (self.offer.digest, self.offer.block_size):
            raise BlockError(
                f"request: for {request.digest.short}… in blocks of {request.block_size}, here is "
                f"{self.offer.digest.short}… in blocks of {self.offer.block_size}"
            )
        return min(request.together, MAX_ATTACHMENT_BYTES // self.offer.block_size)

    def _blocks(self, section: Section, index: int, count: int) -> bytes:
        start, end = index * self.offer.block_size, (index + count) * self.offer.block_size
        if section == "list":
            return self._list[start:end]
        if isinstance(self._data, bytes):
            return self._data[start:end]
        try:
            with self._data.open("rb") as file:
                file.seek(start)
                return file.read(end - start)
        except OSError as error:
            raise BlockError(f"{self._data}: cannot be served any more ({error})") from error


def _runs(indices: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield the first of indices that follow each other, and how many; at most so many."""
    first, count = indices[0], 0
    for index in indices:
        if index != first + count or (count and index % most == 0):
            yield first, count
            first, count = index, 0
        count += 1
    yield first, count


def _cut(data: bytes | Path, block_size: int) -> Iterator[bytes | memoryview]:
    if isinstance(data, bytes):
        view = memoryview(data)
        yield from (view[i : i + block_size] for i in range(0, len(data), block_size))
        return
    with data.open("rb") as file:
        while block := file.read(block_size):
            yield block

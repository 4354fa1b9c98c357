"""Answers as they would travel: packed and hashed on a thread of its own, and not kept.

Packing and hashing need no interpreter, so the devices that come next are trained meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from schemas.envelope import INLINE_LIMIT
from schemas.offers import Offer
from schemas.tensors import compressed
from schemas.values import Digest
from transport.block_source import BlockSource


class Packed(NamedTuple):
    """What is said of a payload."""

    digest: Digest
    size: int
    offer: Offer | None
    """Of a payload that is too large to be attached."""


class Packer:
    """One thread that packs."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "packing")

    def pack(self, bodies: Sequence[bytes]) -> Future[list[Packed]]:
        """Begin to pack the bodies of some answers."""
        return self._thread.submit(_packed, bodies)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)


def _packed(bodies: Sequence[bytes]) -> list[Packed]:
    return [_described(compressed(body)) for body in bodies]


def _described(payload: bytes) -> Packed:
    if len(payload) <= INLINE_LIMIT:
        return Packed(Digest.of(payload), len(payload), None)
    offer = BlockSource(payload).offer
    return Packed(offer.digest, len(payload), offer)

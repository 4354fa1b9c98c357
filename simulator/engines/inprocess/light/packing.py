"""Answers are added to the sum, packed as they would travel, hashed, and not kept.

All of that is done on one thread, in the order of the answers. It needs little of the interpreter,
so the devices that come next are trained meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from methods.training_half import Summing
from schemas.envelope import INLINE_LIMIT
from schemas.offers import Offer
from schemas.tensors import compressed
from schemas.values import Digest
from transport.block_source import BlockSource


class Body(NamedTuple):
    """An answer before it is packed, and its samples."""

    data: bytes
    samples: int


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

    def pack(self, bodies: Sequence[Body], total: Summing) -> Future[list[Packed]]:
        """Begin to add some answers to a sum and to pack them.

        The future raises `FleetledgerError` for one that is no answer.
        """
        return self._thread.submit(_packed, bodies, total)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)


def _packed(bodies: Sequence[Body], total: Summing) -> list[Packed]:
    for body in bodies:
        total.add(body.data, body.samples)
    return [_described(compressed(body.data)) for body in bodies]


def _described(payload: bytes) -> Packed:
    if len(payload) <= INLINE_LIMIT:
        return Packed(Digest.of(payload), len(payload), None)
    offer = BlockSource(payload).offer
    return Packed(offer.digest, len(payload), offer)

"""What a payload comes to on its way over a network: in blocks, each compressed where that pays."""

from __future__ import annotations

from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE
from fleetledger.schemas.zstd_frames import framed


def travelling_bytes(payload: bytes) -> int:
    """Return the bytes of a payload's blocks as a device sends them, without their envelopes."""
    starts = range(0, len(payload), DEFAULT_BLOCK_SIZE)
    blocks = (payload[start : start + DEFAULT_BLOCK_SIZE] for start in starts)
    return sum(len(framed(block) or block) for block in blocks)

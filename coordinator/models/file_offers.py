"""Offers of what the coordinator serves."""

from __future__ import annotations

from fleetledger.schemas.offers import Offer
from fleetledger.transport.block_source import BlockSource


def offer_of(data: bytes) -> Offer:
    """Return the offer of some bytes in blocks of the default size."""
    return BlockSource(data).offer

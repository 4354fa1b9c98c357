"""Comparison of a model that was made again with the recorded one.

The sum is exact, so its digest is the same everywhere. What is computed from it in floating point
is the same to the last bit where the platform's fingerprint is; elsewhere it lies within the
tolerance that stands here: max |a - b| / max |a| over a network's tensors, or over a head's weights
and over what tells how new a sample is, whichever is larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.coordinator.errors import BlobError
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.schemas.values import Digest

SOLVED = 1e-5
"""Largest distance of a head, or a mean of networks, from that of another platform."""
TRAINED = 1e-3
"""The same of weights that the coordinator trained (DCID's DAD), where steps add up."""

Arrays = Mapping[str, npt.NDArray[Any]]


def distance(recorded: Sequence[Arrays], made: Sequence[Arrays]) -> float:
    """Return the largest distance of tensors that belong together; inf where there are others."""
    if len(recorded) != len(made):
        return float("inf")
    return max(_distance(*pair) for pair in zip(recorded, made, strict=True))


def _distance(recorded: Arrays, made: Arrays) -> float:
    """Return max |a - b| / max |a| over tensors of the same names; inf where shapes differ."""
    if {name: array.shape for name, array in recorded.items()} != {
        name: array.shape for name, array in made.items()
    }:
        return float("inf")
    apart, largest = 0.0, 0.0
    for name, array in recorded.items():
        if array.size:
            known = array.astype(np.float64)
            apart = max(apart, float(np.abs(known - made[name]).max()))
            largest = max(largest, float(np.abs(known).max()))
    if not largest:
        return 0.0 if not apart else float("inf")
    return apart / largest


def other_platform(recorded: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return in words how the platform that recorded differs from this one; empty where not."""
    return ", ".join(
        f"{name} {recorded.get(name, 'unknown')} there, {here.get(name, 'unknown')} here"
        for name in sorted({*recorded, *here})
        if recorded.get(name) != here.get(name)
    )


def unlike(name: str, recorded: object, made: object) -> str:
    """Return in words that two values differ; empty where they do not."""
    return "" if recorded == made else f"{name} should be {recorded}, made {made}"


def joined(*faults: str) -> str:
    """Return all that differs in words; empty where nothing does."""
    return "; ".join(filter(None, faults))


def stored(blobs: Blobs, digest: Digest) -> bytes | str:
    """Return what is stored of a result, or why it is not to be had."""
    try:
        return blobs.get(digest)
    except BlobError as error:
        return str(error)

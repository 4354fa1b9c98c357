"""What the rules of partition ask of the samples."""

from __future__ import annotations

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.errors import PartitionError


def check_enough(samples: int, least: int, devices: int) -> None:
    """Raise `PartitionError` unless there are devices, and at least `least` samples for them."""
    if devices < 1 or samples < least:
        raise PartitionError(
            f"devices: {devices} cannot share {count_of(samples, 'sample')} with at least "
            f"{least // devices if devices else 1} each; give fewer devices or more samples"
        )

"""Whether a gate that fails rests on one device alone: then a person decides, and no machine."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.topics.rollouts.evidence import Evidence, Sums
from schemas.values import DeviceId


def rests_on(evidence: Evidence, fails: Callable[[Sums], bool]) -> DeviceId | None:
    """Return a device without whose comparison a gate would not fail, the first by name.

    Asked only of what fails; it takes time that grows with the number of devices.
    """
    for device in sorted(evidence.comparisons):
        with evidence.without(device) as others:
            if not fails(others):
                return device
    return None


def of_one(alone: DeviceId | None) -> str:
    """Return the sentence that says so, or nothing."""
    return f" Without {alone} it would not be so." if alone else ""

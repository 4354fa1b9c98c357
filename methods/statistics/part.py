"""What a device side is told of the part that it computes, beside assignment and data."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.schemas.values import ClassName


@dataclass(frozen=True)
class PartContext:
    """Where chance comes from, and what the device's owner chose.

    A device side draws nothing of its own: the same assignment, data and context give the same
    payload. Noise of differential privacy alone is new each time, from the system's random bytes.
    """

    seed: bytes = b""
    """Names device, frozen model and stage; not secret."""
    secret: bytes = b""
    """Known to this device alone, another one for each revision of a part."""
    form: str | None = None
    """The form of contribution that the owner chose; None leaves it to the assignment."""
    class_names: tuple[ClassName, ...] = ()
    """Every class that the fleet knows; a part with noise has a row for each of them."""
    told: tuple[str, ...] = ()
    """Of each sample, what names those that were summed with it before; empty text for one that
    was in no payload, no texts where none was. Equal ones are never dealt to several groups."""


NO_CONTEXT = PartContext()

"""What a device side is told of the part that it computes, beside assignment and data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PartContext:
    """Where chance comes from, and what the device's owner chose.

    A device side draws nothing of its own: the same assignment, data and context give the same
    payload.
    """

    seed: bytes = b""
    """Names device, frozen model and stage; not secret."""
    secret: bytes = b""
    """Known to this device alone, another one for each revision of a part."""
    form: str | None = None
    """The form of contribution that the owner chose; None leaves it to the assignment."""


NO_CONTEXT = PartContext()

"""A file that is pinned by its content."""

from __future__ import annotations

from pydantic import Field
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.offers import MAX_OFFER_SIZE
from fleetledger.schemas.values import Digest


class FileReference(Strict):
    """Pins a file by content."""

    digest: Digest
    size: int = Field(ge=1, le=MAX_OFFER_SIZE)
    """Bytes."""

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the reference of `data`, which must not be empty."""
        return cls(digest=Digest.of(data), size=len(data))

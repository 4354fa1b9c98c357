"""Offers of large data, and the messages that fetch it in blocks.

Data above the inline limit is not sent but offered. The receiver fetches the list of block hashes
first, in parts of one block each, checks it against the offer, and then the blocks, each checked
on arrival. Request and answer name the data by its digest, so neither side needs a session.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import Items, Message
from fleetledger.schemas.values import Digest

HASH_BYTES = 32
MIN_BLOCK_SIZE = 4 * 1024
MAX_BLOCK_SIZE = 256 * 1024
DEFAULT_BLOCK_SIZE = 64 * 1024
MAX_OFFER_SIZE = 4 * 1024**3
MAX_BLOCKS = 128 * 1024
"""Bounds the list of hashes to 4 MiB; 64 KiB blocks reach 4 GiB with half of it."""
MAX_INDICES = 64
"""Blocks wanted by one request."""

BlockSize = Annotated[int, Field(ge=MIN_BLOCK_SIZE, le=MAX_BLOCK_SIZE)]
BlockIndex = Annotated[int, Field(ge=0, lt=MAX_BLOCKS)]
HTTPS = "https"
"""Among the features of a device that reads where files lie, and may fetch them there by HTTP."""
MAX_URL = 2048
MAX_FILE_URLS = 32
HttpsUrl = Annotated[str, Field(max_length=MAX_URL, pattern=r"^https://[!-~]+$")]
FilePlace = Annotated[str, Field(max_length=MAX_URL, pattern=r"^(https://|:[0-9]{1,5}/)[!-~]+$")]
"""A URL, or port and path at the coordinator itself, whose name its devices know."""
Section = Literal["list", "data"]
"""Which bytes are cut into blocks: the list of block hashes, or the data itself."""


class Offer(Strict):
    """Names data that a receiver may fetch, and pins every block of it."""

    digest: Digest
    """SHA-256 of the whole data."""
    size: int = Field(ge=1, le=MAX_OFFER_SIZE)
    block_size: BlockSize = DEFAULT_BLOCK_SIZE
    """Bytes per block; the last block may be shorter."""
    list_digest: Digest
    """SHA-256 of the concatenated 32-byte SHA-256 hashes of all blocks."""

    @model_validator(mode="after")
    def _list_is_bounded(self) -> Self:
        if self.block_count > MAX_BLOCKS:
            raise ValueError(
                f"block_size: {self.block_size} cuts {self.size} bytes into {self.block_count} "
                f"blocks, at most {MAX_BLOCKS} are allowed; offer larger blocks"
            )
        return self

    @property
    def block_count(self) -> int:
        """Number of blocks, at least one."""
        return -(-self.size // self.block_size)

    @property
    def list_size(self) -> int:
        """Bytes of the list of block hashes."""
        return HASH_BYTES * self.block_count


class FileUrl(Strict):
    """Where an offered file may be had by HTTP, too: a hint, and nothing that counts.

    What comes from there is held to the offer like any block, and may not come at all.
    """

    digest: Digest
    url: FilePlace


class BlockRequest(Message):
    """Asks for some blocks of the list or of the data; answered block by block, in any order."""

    kind: ClassVar[str] = "block.request"
    digest: Digest
    block_size: BlockSize
    section: Section
    indices: Items[BlockIndex] = Field(min_length=1, max_length=MAX_INDICES)
    together: int = Field(default=1, ge=1, le=MAX_INDICES)
    """Blocks that may come in one message, where they follow each other and fit."""
    repeated: int = Field(default=0, ge=0, le=MAX_INDICES)
    """Number of indices, the first ones, that were asked for before and did not come."""
    lacks_from: int | None = Field(default=None, ge=0, le=MAX_BLOCKS)
    """Block of the data from which on a device has none and asked for none, if it listens on the
    topic that all share; None if it does not listen."""


class BlockData(Message):
    """Comes with one block as its attachment, or with some that follow each other."""

    kind: ClassVar[str] = "block.data"
    digest: Digest
    section: Section
    index: BlockIndex
    """Of the first one."""


class BlockRefusal(Message):
    """Answers a request for data that is not served, so that nobody asks for it for ever."""

    kind: ClassVar[str] = "block.refused"
    digest: Digest
    reason: str = Field(max_length=300)

"""zstd frames: bytes that are not what a digest names, but how they travel, or once were kept.

Digests name plain bytes, so that they do not depend on zstd's version. An attachment may travel as
one frame where that is shorter (`schemas.envelope`), and payloads that were kept before version 2
of the envelope are frames as they are (`schemas.tensors`).

A frame declares how long its content is, and that is compared with what the reader takes before
anything is allocated. The law is `unframed(framed(x), len(x)) == x`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fleetledger.schemas.errors import FrameError

if TYPE_CHECKING:
    import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of every frame."""
COMPRESSION_LEVEL = 1
MAX_FRAMED_SHARE = 0.95
"""A frame must not be larger than this share of its content to be worth its time."""
_OF_THREAD = threading.local()


def framed(data: bytes | memoryview) -> bytes | None:
    """Return one frame of `data`, None where that does not pay."""
    frame = _compressor().compress(data)
    return frame if len(frame) <= MAX_FRAMED_SHARE * len(data) else None


def unframed(frame: bytes | memoryview, limit_bytes: int) -> bytes:
    """Return what one frame holds; raise `FrameError` for more than the limit, and for none."""
    import zstandard  # noqa: PLC0415 - an agent starts without it

    declared = declared_size(frame)
    if declared is None:
        raise FrameError("frame: does not declare its size; compress it in one piece")
    if declared > limit_bytes:
        raise FrameError(f"size: {declared} bytes; at most {limit_bytes} are accepted here")
    try:
        data = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FrameError(f"frame: cannot be decompressed: {error}; send it again") from error
    if len(data) != declared:
        raise FrameError(f"frame: {len(data)} bytes where it declares {declared}; send it again")
    return data


def declared_size(frame: bytes | memoryview) -> int | None:
    """Return how many bytes a frame says that it holds, None where it does not say.

    Raises `FrameError` for what is no frame.
    """
    import zstandard  # noqa: PLC0415 - as above

    try:
        size = zstandard.get_frame_parameters(frame).content_size
    except zstandard.ZstdError as error:
        raise FrameError(f"frame: cannot be decompressed: {error}; send it again") from error
    return None if size == zstandard.CONTENTSIZE_UNKNOWN else size


def first_bytes(frame: bytes, count: int) -> bytes:
    """Return the first bytes of what a frame holds; raise `FrameError` for what is none."""
    import zstandard  # noqa: PLC0415 - as above

    try:
        with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
            return reader.read(count)
    except zstandard.ZstdError as error:
        raise FrameError(f"frame: cannot be decompressed: {error}; send it again") from error


def _compressor() -> zstandard.ZstdCompressor:
    """Return this thread's compressor: to make one takes half as long as to pack an answer."""
    import zstandard  # noqa: PLC0415 - as above

    made: zstandard.ZstdCompressor | None = getattr(_OF_THREAD, "zstd", None)
    if made is None:
        made = _OF_THREAD.zstd = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
    return made

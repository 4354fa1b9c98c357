"""Bodies of requests: bounded in size and time, whole before they are looked at."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MOST_BODY_BYTES = 32 * 2**20
"""A photograph of 24 million pixels has about 10 MiB as JPEG."""
BODY_SECONDS = 20.0


async def body_of(request: Request, most: int = MOST_BODY_BYTES) -> bytes:
    """Return a request's body; raise `HTTPException` for one that is too large or too slow."""
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or int(said) > most:
        raise _too_large(most)
    try:
        return await asyncio.wait_for(_read(request, most), BODY_SECONDS)
    except asyncio.TimeoutError as error:
        text = f"The body did not come within {BODY_SECONDS:.0f} s; send it without waiting."
        raise HTTPException(408, text) from error
    except ClientDisconnect as error:
        raise HTTPException(400, "The connection ended before the body did.") from error


async def _read(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"A body has at most {most} bytes; send a smaller image.")

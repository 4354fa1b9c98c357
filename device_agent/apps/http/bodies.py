"""Bodies of requests: bounded in size and time, and together, whole before they are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MOST_BODY_BYTES = 32 * 2**20
"""A photograph of 24 million pixels has about 10 MiB as JPEG."""
MOST_TOGETHER_BYTES = 2 * MOST_BODY_BYTES
"""Bytes that all bodies in memory may have together."""
BODY_SECONDS = 20.0


class BodyRoom:
    """Room for bodies; it is taken before a byte of one is read."""

    def __init__(self, most: int = MOST_BODY_BYTES, together: int = MOST_TOGETHER_BYTES) -> None:
        self._most = most
        self._left = together

    @asynccontextmanager
    async def body_of(self, request: Request) -> AsyncIterator[bytes]:
        """Yield a request's body, whose room is free again afterwards.

        Raises `HTTPException` for one that is too large or too slow, and where there is no room. A
        body that does not say its size takes the room of the largest.
        """
        said = request.headers.get("content-length")
        if said is not None and (not said.isdecimal() or int(said[:20]) > self._most):
            raise self._too_large()
        size = self._most if said is None else int(said)
        if size > self._left:
            text = "There is no room for another body now; ask again in a moment."
            raise HTTPException(503, text, {"Retry-After": "1"})
        self._left -= size
        try:
            yield await self._read_in_time(request)
        finally:
            self._left += size

    async def _read_in_time(self, request: Request) -> bytes:
        try:
            return await asyncio.wait_for(self._read(request), BODY_SECONDS)
        except asyncio.TimeoutError as error:
            text = f"The body did not come within {BODY_SECONDS:.0f} s; send it without waiting."
            raise HTTPException(408, text) from error
        except ClientDisconnect as error:
            raise HTTPException(400, "The connection ended before the body did.") from error

    async def _read(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._most:
                raise self._too_large()
            parts.append(part)
        return b"".join(parts)

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"A body has at most {self._most} bytes; send a smaller image.")

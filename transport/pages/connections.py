"""Connections of a server of pages: a deadline for what clients send, and a share for each address.

A connection waits while its client has the next word: the head of a request, its body, or another
request. Waiting costs nothing but a place, and places are what half-sent requests take. So the one
that waited longest makes room for the next; a connection that is being answered is left alone.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 5.0
"""Seconds from a connection's begin, or from the first byte of a further request, to the end of
the request's head."""
MOST_WAITING = 200
"""Connections that wait, of all addresses together."""
MOST_WAITING_OF_ONE = 50
"""Connections that wait, of one address; those of a configured proxy have no share."""


class BoundedProtocol(H11Protocol):
    """Connection that ends where its client takes too long, or where others need its place."""

    _deadline: asyncio.TimerHandle | None = None
    _since: float = 0.0
    _dropped: bool = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, in the place of one that waited too long where there are too many."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._drop)
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the rest of a head has to come in time."""
        super().data_received(data)
        if not self._lacks_head:
            self._cancel()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._drop)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel()
        super().connection_lost(exc)

    @property
    def _lacks_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _waits(self) -> bool:
        return not self._dropped and (self._lacks_head or self.cycle.more_body)

    @property
    def _address(self) -> str | None:
        """Address whose share counts; None for a socket in the file system, and for the proxy."""
        host = self.client[0] if self.client else None
        proxies = self.config.forwarded_allow_ips if self.config.proxy_headers else ()
        return None if host in (proxies or ()) else host

    def _make_room(self) -> None:
        others = [cast("BoundedProtocol", one) for one in self.connections if one is not self]
        waiting = [one for one in others if one._waits]
        own = [one for one in waiting if one._address == self._address]
        if self._address is not None and len(own) >= MOST_WAITING_OF_ONE:
            _longest(own)._drop()
        elif len(waiting) >= MOST_WAITING:
            _longest(waiting)._drop()

    def _drop(self) -> None:
        self._dropped = True
        self.connections.discard(self)
        self.transport.abort()

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _longest(waiting: list[BoundedProtocol]) -> BoundedProtocol:
    return min(waiting, key=lambda one: one._since)

"""Blocks that the proxy fetches: an exchange on the proxy's branch, opened with the first of them.

A device that has nothing for a proxy, or only messages that carry their payload, needs no third
connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from fleetledger.schemas.values import Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.meter import Counts
from fleetledger.transport.transfer import Exchange


class Serving(Protocol):
    """Whatever answers requests for payloads."""

    def source(self, digest: Digest) -> BlockSource | None:
        """Return what requests for this data are answered from; None if they are not."""

    def serve(self, data: BlockSource) -> object:
        """Answer requests for this data from now on."""


class ProxyBlocks:
    """What is served to the proxy; `open_exchange` returns an exchange that has begun."""

    def __init__(self, open_exchange: Callable[[], Exchange]) -> None:
        self._open = open_exchange
        self._exchange: Exchange | None = None

    def source(self, digest: Digest) -> BlockSource | None:
        """Return what requests for this data are answered from; None if they are not."""
        return self._exchange.source(digest) if self._exchange is not None else None

    def serve(self, data: BlockSource) -> None:
        """Answer the proxy's requests for this data from now on."""
        if self._exchange is None:
            self._exchange = self._open()
        self._exchange.serve(data)

    def withdraw_all_but(self, keep: Collection[Digest]) -> None:
        """Serve nothing any longer that is not to be kept."""
        if self._exchange is not None:
            self._exchange.withdraw_all_but(keep)

    def traffic(self) -> Counts:
        """Return what has crossed."""
        return self._exchange.traffic() if self._exchange is not None else Counts()

    def stop(self) -> None:
        """End."""
        if self._exchange is not None:
            self._exchange.stop()

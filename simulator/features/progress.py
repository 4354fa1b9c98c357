"""Progress of something long, reported now and then."""

from __future__ import annotations

import time

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.engines.interface import Watch

_EVERY = 1.0
"""Seconds between two words."""


class ExtractionProgress:
    """One thing that is done for a known number of pictures."""

    def __init__(self, watch: Watch, what: str, total: int) -> None:
        self._watch = watch
        self._what = what
        self._total = total
        self._told = time.monotonic() - _EVERY

    def at(self, done: int) -> None:
        """Say that `done` pictures are done, unless something was just said."""
        if time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            self._watch.phase(f"{self._what}: {done:,} of {count_of(self._total, 'picture')}")

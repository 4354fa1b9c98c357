"""Samples of a device that only runs models: none."""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.device_agent.core.inputs import Scanned


class NoSamples:
    """Stands where a data folder would."""

    def rescan(self, paths: Iterable[str]) -> None:
        """Forget nothing."""

    def scan(self) -> Scanned:
        """Return that nothing is there, which is as it should be."""
        return Scanned((), (), 0)

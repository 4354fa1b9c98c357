"""Real brokers as somebody finds them, without what ours set."""

from __future__ import annotations

import shutil
from pathlib import Path

from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.mosquitto_configuration import LIMITS, Bridge, bridge


class DefaultMosquitto(MosquittoBroker):
    """A Mosquitto with its own limits: a thousand messages wait for a client, and no more.

    Only who may connect is ours; whatever waits for somebody is gone when the broker is.
    """

    def _configuration(self) -> list[str]:
        return [line for line in super()._configuration() if line not in LIMITS]


class NarrowMosquitto(DefaultMosquitto):
    """A Mosquitto that sends a client one message at a time and keeps one more for it."""

    def _configuration(self) -> list[str]:
        return [*super()._configuration(), "max_inflight_messages 1", "max_queued_messages 1"]


class SiteMosquitto(DefaultMosquitto):
    """A Mosquitto of a site, bridged to another one, with the same users and secrets."""

    def __init__(self, directory: Path, centre: MosquittoBroker) -> None:
        directory.mkdir(parents=True)
        shutil.copy(centre.directory / "secrets.json", directory)
        super().__init__(directory, [])
        self._centre = centre

    def _configuration(self) -> list[str]:
        _, password = self._centre.credentials("coordinator")
        way = Bridge("mill", self._centre.host, self._centre.port, password)
        return [*super()._configuration(), *bridge(way)]

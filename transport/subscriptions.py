"""Who wants which topic: filters without wildcards are looked up, the others are tried in turn.

Nearly every filter of a fleet is one device's own topic, so a broker with thousands of devices
must not try each filter for each message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fleetledger.transport.filters import matches


class Subscriptions:
    """Filters of clients, with the QoS of each."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[str, int]] = {}
        """Topic, then client."""
        self._wild: dict[str, dict[str, int]] = {}
        """Client, then filter."""

    def add(self, client_id: str, filters: Mapping[str, int]) -> None:
        """Add a client's filters, or change their QoS."""
        for topic_filter, qos in filters.items():
            if is_wild(topic_filter):
                self._wild.setdefault(client_id, {})[topic_filter] = qos
            else:
                self._exact.setdefault(topic_filter, {})[client_id] = qos

    def remove(self, client_id: str, filters: Collection[str]) -> None:
        """Take a client's filters out."""
        for topic_filter in filters:
            self._exact.get(topic_filter, {}).pop(client_id, None)
            self._wild.get(client_id, {}).pop(topic_filter, None)

    def wanting(self, topic: str) -> dict[str, int]:
        """Return the clients that want messages of a topic, each with its highest QoS."""
        found = dict(self._exact.get(topic, {}))
        for client_id, filters in self._wild.items():
            qos = [q for f, q in filters.items() if matches(f, topic)]
            if qos:
                found[client_id] = max(*qos, found.get(client_id, 0))
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._exact.clear()
        self._wild.clear()


def is_wild(topic_filter: str) -> bool:
    """Whether a filter has a wildcard."""
    return "+" in topic_filter or "#" in topic_filter

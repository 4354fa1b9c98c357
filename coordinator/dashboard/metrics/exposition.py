"""All metrics, as OpenMetrics or in the older text of Prometheus."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics

from fleetledger.coordinator.dashboard.metrics.families import gauge
from fleetledger.coordinator.dashboard.metrics.fleet import device_families, fleet_families
from fleetledger.coordinator.dashboard.metrics.ledger import accepted, ledger_families
from fleetledger.coordinator.dashboard.metrics.process import info_family, process_families
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import LiveSnapshot


def families(
    ledger: LedgerReader,
    live: LiveSnapshot | None,
    time_ns: int,
    *,
    method: str = "",
    per_device: bool = False,
) -> Iterator[Metric]:
    """Yield every family; devices are named only where `per_device` is asked for."""
    with ledger.snapshot():
        if live is not None:
            yield info_family(live, method)
        yield from fleet_families(ledger, live, time_ns)
        yield from ledger_families(ledger)
        yield gauge(
            "coordinator_free_disk_bytes",
            "Free disk where the ledger lies.",
            shutil.disk_usage(ledger.path.parent).free,
        )
        yield from process_families(live, accepted(ledger), time_ns)
        if per_device:
            yield from device_families(ledger, live, time_ns)


@dataclass(frozen=True)
class Exposition:
    """Metrics as text, with the type of its content."""

    content: bytes
    content_type: str


def expose(found: Iterable[Metric], accept: str = "") -> Exposition:
    """Return metrics as OpenMetrics, or as Prometheus' text where `accept` asks for that alone."""
    registry = _Collected(tuple(found))
    accepted_types = {part.partition(";")[0].strip() for part in accept.split(",")}
    if "text/plain" in accepted_types and "application/openmetrics-text" not in accepted_types:
        return Exposition(exposition.generate_latest(registry), exposition.CONTENT_TYPE_PLAIN_0_0_4)
    content = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return Exposition(content, openmetrics.CONTENT_TYPE_LATEST)


@dataclass(frozen=True)
class _Collected:
    """What prometheus_client takes for a registry."""

    found: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        return self.found

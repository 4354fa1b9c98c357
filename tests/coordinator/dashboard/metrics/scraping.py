"""A coordinator's home with a fleet in it, and what its metrics say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fleetledger.coordinator.dashboard.metrics.routes import expose, families
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.live.snapshot import (
    CoordinatorNow,
    CounterNow,
    DeviceNow,
    HistogramNow,
    LiveSnapshot,
)
from fleetledger.runtime.problems import DatedProblem
from fleetledger.schemas.health import DeviceHealth, HealthProblem, ThermalZone
from fleetledger.schemas.values import DeviceId
from tests.coordinator.reports.test_old_and_new_classes import two_stages
from tests.coordinator.reports.test_views import write

NOW_NS = 1_800_000_000 * 10**9
COORDINATOR = CoordinatorNow(
    fleet="orchard",
    version="0.1.0",
    pid=1,
    started_ns=NOW_NS - 60 * 10**9,
    written_ns=NOW_NS - 10**9,
    connected=True,
    ledger_size=30,
    committed_ns=NOW_NS - 3 * 10**9,
)
FULL = DatedProblem(
    about="ledger", text="the disk is full", since_ns=NOW_NS - 120 * 10**9, hinders=True
)
HEALTH = DeviceHealth(
    temperatures=(ThermalZone(zone="cpu", celsius=61), ThermalZone(zone="gpu", celsius=70.5)),
    throttled=2,
    free_disk_bytes=5_000_000,
    resident_bytes=100_000_000,
    inference_p95_seconds=0.025,
    problems=(HealthProblem(about="disk", text="it is nearly full", seconds=90),),
)
DEVICES = {
    DeviceId("dev-1"): DeviceNow(
        device=DeviceId("dev-1"),
        online=True,
        heard_ns=NOW_NS - 10**9,
        outbox=3,
        resident_bytes=100_000_000,
        health=HEALTH,
        health_ns=NOW_NS,
    ),
    DeviceId("dev-2"): DeviceNow(
        device=DeviceId("dev-2"), outbox=9, health=HEALTH, health_ns=NOW_NS
    ),
}
COUNTERS = (
    CounterNow(name="contributions", labels={"result": "refused"}, value=2),
    CounterNow(name="contributions", labels={"result": "accepted"}, value=1),
    CounterNow(name="messages_refused", labels={"reason": "unbelieved"}, value=4),
    CounterNow(name="messages", labels={"direction": "in", "kind": "heartbeat"}, value=9),
    CounterNow(name="traffic_bytes", labels={"direction": "in", "kind": "heartbeat"}, value=900),
)
HISTOGRAMS = tuple(
    HistogramNow(name=name, bounds=(0.01, 0.1, 1), counts=(3, 2, 0, 1), total=4.5)
    for name in ("ledger_commit_seconds", "receipt_seconds", "solve_seconds", "round_seconds")
)
LIVE = LiveSnapshot(
    coordinator=COORDINATOR, devices=DEVICES, counters=COUNTERS, histograms=HISTOGRAMS
)

Samples = Mapping[str, float]
"""Values by name and labels, written as in the exposition."""


def make_home(home: Path, live: LiveSnapshot | None = LIVE) -> Path:
    """Write a ledger of two devices, and what is known of them just now."""
    write(home, two_stages())
    if live is not None:
        LiveFile(home).write(live)
    return home


def scrape(
    home: Path, live: LiveSnapshot | None, *, per_device: bool = False, time_ns: int = NOW_NS
) -> Samples:
    """Return what a strict parser of OpenMetrics reads in the metrics of a home."""
    with ledger_of(home) as ledger:
        found = families(ledger, live, time_ns, method="stsa", per_device=per_device)
        return samples(expose(found).content.decode("utf-8"))


def samples(text: str) -> Samples:
    """Parse OpenMetrics strictly."""
    parsed = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    found = {}
    for family in parsed:
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            name = sample.name.removeprefix("fleetledger_")
            found[f"{name}{{{labels}}}" if labels else name] = sample.value
    return found

"""What only the coordinator's process knows: counters and histograms since it began."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import InfoMetricFamily, Metric

from coordinator.dashboard.metrics.families import counted, counters, gauge, histogram
from coordinator.live.snapshot import CoordinatorNow, LiveSnapshot, serves

RESULTS = ("accepted", "refused", "later", "repeated")
_HISTOGRAMS = {
    "ledger_commit_seconds": "Time that a group of entries took to be on the disk.",
    "receipt_seconds": "Time from a message's coming to its receipt.",
    "solve_seconds": "Time that solving and exporting a model took.",
    "round_seconds": "Time from the opening of a round to its end.",
}


def info_family(live: LiveSnapshot, method: str) -> Metric:
    """Return version, fleet and method."""
    now = live.coordinator
    text = "The coordinator: its version, fleet and method."
    family = InfoMetricFamily("fleetledger", text)
    family.add_metric((), {"version": now.version, "fleet": now.fleet, "method": method})
    return family


def process_families(live: LiveSnapshot | None, accepted: int, time_ns: int) -> Iterator[Metric]:
    """Yield what the coordinator says of itself; `accepted` contributions are the ledger's."""
    now = live.coordinator if live else None
    yield from _self(now, time_ns)
    found = live.counters if live else ()
    results: dict[tuple[str, ...], float] = {(result,): 0.0 for result in RESULTS if live}
    results |= counted((one for one in found if one.name == "contributions"), ("result",))
    yield counters(
        "contributions",
        "Contributions by what their devices were told; accepted ones as the ledger has them.",
        ("result",),
        {**results, ("accepted",): accepted},
    )
    for name, text, labels in (
        ("messages_refused", "Messages that were refused.", ("reason",)),
        ("traffic_bytes", "Bytes of messages, in from devices and out to them.", _TRAFFIC),
    ):
        chosen = (one for one in found if one.name == name)
        yield counters(name, text, labels, counted(chosen, labels))
    observed = live.histograms if live else ()
    for name, text in _HISTOGRAMS.items():
        yield histogram(name, text, (one for one in observed if one.name == name))


_TRAFFIC = ("direction", "kind")


def _self(now: CoordinatorNow | None, time_ns: int) -> Iterator[Metric]:
    up = now is not None and serves(now, time_ns)
    yield gauge("coordinator_up", "1 where a coordinator serves.", float(up))
    connected = None if now is None else float(up and now.connected)
    yield gauge("coordinator_connected", "1 where it is connected to the broker.", connected)
    hindered = None if now is None else float(bool(now.hindered))
    yield gauge("coordinator_hindered", "1 where something keeps it from its work.", hindered)
    started = None if now is None else now.started_ns / 1e9
    yield gauge("coordinator_start_timestamp_seconds", "When it began.", started)
    committed = None if now is None or now.committed_ns is None else now.committed_ns / 1e9
    yield gauge(
        "ledger_commit_timestamp_seconds",
        "When the newest group of entries was committed.",
        committed,
    )

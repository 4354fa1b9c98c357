"""What only the coordinator's process knows: counters and histograms since it began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import InfoMetricFamily, Metric

from fleetledger.coordinator.dashboard.metrics.families import counters, gauge, histogram
from fleetledger.coordinator.live import meters
from fleetledger.coordinator.live.snapshot import CoordinatorNow, CounterNow, LiveSnapshot, serves

RESULTS = ("accepted", "refused", "later", "repeated")
_COUNTERS = {
    meters.MESSAGES_REFUSED: "Messages that were refused, by why.",
    meters.MESSAGES: "Messages in from devices and out to them, by kind.",
    meters.TRAFFIC_BYTES: "Bytes of messages in from devices and out to them, by kind.",
}
_HISTOGRAMS = {
    meters.COMMIT_SECONDS: "Time to decide about a group of inputs and to have it on the disk.",
    meters.RECEIPT_SECONDS: "Time from when a contribution was taken to when its receipt was sent.",
    meters.SOLVE_SECONDS: "Time to sum what is held and to solve a head.",
    meters.ROUND_SECONDS: "Time from when a round opened to when it closed.",
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
    results |= _counted(found, meters.CONTRIBUTIONS)
    yield counters(
        meters.CONTRIBUTIONS.name,
        "Contributions by what their devices were told; accepted ones as the ledger has them.",
        meters.CONTRIBUTIONS.labels,
        {**results, ("accepted",): accepted},
    )
    for counter, text in _COUNTERS.items():
        yield counters(counter.name, text, counter.labels, _counted(found, counter))
    observed = live.histograms if live else ()
    for kind, text in _HISTOGRAMS.items():
        yield histogram(kind.name, text, (one for one in observed if one.name == kind.name))


def _counted(found: Iterable[CounterNow], counter: meters.Counter) -> dict[tuple[str, ...], float]:
    return {
        tuple(one.labels.get(label, "") for label in counter.labels): one.value
        for one in found
        if one.name == counter.name
    }


def _self(now: CoordinatorNow | None, time_ns: int) -> Iterator[Metric]:
    up = now is not None and serves(now, time_ns)
    yield gauge("coordinator_up", "1 where a coordinator serves.", float(up))
    connected = None if now is None else float(up and now.connected)
    yield gauge("coordinator_connected", "1 where it is connected to the broker.", connected)
    hindered = None if now is None else float(up and now.hindered is not None)
    yield gauge("coordinator_hindered", "1 where something keeps it from its work.", hindered)
    dated = now.problems if now is not None and up else ()
    since = [problem.since_ns for problem in dated if problem.hinders]
    if now is not None and up and now.disconnected_ns is not None:
        since.append(now.disconnected_ns)
    yield gauge(
        "coordinator_hindered_seconds",
        "For how long something, or no connection, has kept it from its work; 0 for nothing.",
        None if not up else max((time_ns - one for one in since), default=0) / 1e9,
    )
    yield gauge(
        "coordinator_problems",
        "What is wrong with it, whether that keeps it from its work or not.",
        None if not up else float(len(dated)),
    )
    started = None if now is None else now.started_ns / 1e9
    yield gauge("coordinator_start_timestamp_seconds", "When it began.", started)
    committed = None if now is None or now.committed_ns is None else now.committed_ns / 1e9
    yield gauge(
        "ledger_commit_timestamp_seconds",
        "When the newest group of entries was committed.",
        committed,
    )

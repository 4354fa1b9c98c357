"""Counters and histograms of a running coordinator, for whoever shows them.

They are counted on the one thread that serves, so there is no lock, and counting is one change of
a dictionary. Names are those of Prometheus without what whoever exposes them adds: the prefix
`fleetledger_`, and `_total` behind counters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from fleetledger.coordinator.live.snapshot import CounterNow, HistogramNow

Values = tuple[str, ...]
"""Of labels, in the order of their names."""


@dataclass(frozen=True)
class Counter:
    """A count that only grows, for each combination of its labels' values."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Histogram:
    """How often something took how many seconds."""

    name: str
    bounds: tuple[float, ...]
    """Upper bounds of the buckets in seconds, growing; one without bound follows."""


TRAFFIC_BYTES = Counter("traffic_bytes", ("direction", "kind"))
"""Of messages: `direction` is `in` from devices or `out` to them; `kind` is that of
docs/protocol, `blocks` for all that the exchange of blocks carries, `http` for files that went so,
`other` for what is none."""
MESSAGES = Counter("messages", ("direction", "kind"))
MESSAGES_REFUSED = Counter("messages_refused", ("reason",))
"""`quota`, `unreadable`, or `unbelieved`: what no key, run or token vouches for."""
CONTRIBUTIONS = Counter("contributions", ("result",))
"""By what their receipts said: `accepted`, `refused`, `later`, or `repeated`, accepted before."""

COMMIT_SECONDS = Histogram(
    "ledger_commit_seconds", (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
)
"""To decide about a group of inputs and to have it on the disk."""
RECEIPT_SECONDS = Histogram(
    "receipt_seconds", (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
)
"""From when a contribution was taken to when its receipt was sent."""
SOLVE_SECONDS = Histogram("solve_seconds", (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800))
"""To sum what is held and to solve a head."""
ROUND_SECONDS = Histogram(
    "round_seconds", (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
)
"""From when a round opened to when it closed."""

HISTOGRAMS = (COMMIT_SECONDS, RECEIPT_SECONDS, SOLVE_SECONDS, ROUND_SECONDS)


@dataclass
class _Buckets:
    counts: list[int]
    total: float = 0.0


@dataclass
class Meters:
    """What was counted since the coordinator began."""

    _counts: defaultdict[tuple[Counter, Values], float] = field(
        default_factory=lambda: defaultdict(float)
    )
    _buckets: dict[Histogram, _Buckets] = field(
        default_factory=lambda: {
            histogram: _Buckets([0] * (len(histogram.bounds) + 1)) for histogram in HISTOGRAMS
        }
    )

    def add(self, counter: Counter, *values: str, count: float = 1) -> None:
        """Count something, with its labels' values in their order."""
        self._counts[counter, values] += count

    def reach(self, counter: Counter, *values: str, count: float) -> None:
        """Take over a count that somebody else keeps."""
        self._counts[counter, values] = count

    def observe(self, histogram: Histogram, seconds: float) -> None:
        """Note how long something took."""
        buckets = self._buckets[histogram]
        buckets.counts[bisect_left(histogram.bounds, seconds)] += 1
        buckets.total += seconds

    def counters(self) -> tuple[CounterNow, ...]:
        """Return all counts, by name and labels."""
        counted = sorted(self._counts.items(), key=lambda item: (item[0][0].name, item[0][1]))
        return tuple(
            CounterNow(
                name=counter.name,
                labels=dict(zip(counter.labels, values, strict=True)),
                value=value,
            )
            for (counter, values), value in counted
        )

    def histograms(self) -> tuple[HistogramNow, ...]:
        """Return all histograms, also those in which nothing was noted yet."""
        return tuple(
            HistogramNow(
                name=histogram.name,
                bounds=histogram.bounds,
                counts=tuple(buckets.counts),
                total=buckets.total,
            )
            for histogram, buckets in self._buckets.items()
        )

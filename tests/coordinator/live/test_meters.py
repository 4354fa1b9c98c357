"""Counters and histograms are what Prometheus takes them for."""

from fleetledger.coordinator.live import meters as kinds
from fleetledger.coordinator.live.meters import HISTOGRAMS, RECEIPT_SECONDS, Counter, Meters


def test_a_histogram_counts_what_is_at_most_a_bound():
    meters = Meters()
    for seconds in (0, RECEIPT_SECONDS.bounds[0], 0.3, 1e9):
        meters.observe(RECEIPT_SECONDS, seconds)
    found = next(item for item in meters.histograms() if item.name == "receipt_seconds")
    assert len(found.counts) == len(found.bounds) + 1
    assert (found.counts[0], found.counts[-1], sum(found.counts)) == (2, 1, 4)
    assert found.total == 1e9 + 0.3 + RECEIPT_SECONDS.bounds[0]


def test_names_are_those_of_prometheus_without_what_is_added_and_bounds_grow():
    counters = [kind for kind in vars(kinds).values() if isinstance(kind, Counter)]
    assert counters
    assert not any(counter.name.endswith("_total") for counter in counters)
    assert all(histogram.name.endswith("_seconds") for histogram in HISTOGRAMS)
    assert all(list(item.bounds) == sorted(set(item.bounds)) for item in HISTOGRAMS)


def test_what_was_never_observed_is_a_histogram_of_nothing():
    found = Meters().histograms()
    assert [item.name for item in found] == [histogram.name for histogram in HISTOGRAMS]
    assert all(sum(item.counts) == 0 for item in found)

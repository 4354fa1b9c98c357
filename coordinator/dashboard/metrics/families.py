"""Families of metrics in the form of prometheus_client, named by one rule.

The rule: the prefix `fleetledger_`, base units at the end of the name, counts that only grow end
in `_total`, shares from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fleetledger.coordinator.live.snapshot import HistogramNow

PREFIX = "fleetledger_"
_UNITS = ("seconds", "bytes", "celsius", "ratio")
QUANTILES = (0.0, 0.5, 0.9, 1.0)

Labelled = Mapping[tuple[str, ...], float]
"""Values by those of their labels."""


def gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    """Return a family of one value, or of none where it is unknown."""
    family = GaugeMetricFamily(PREFIX + name, text, unit=_unit(name))
    if value is not None:
        family.add_metric((), value)
    return family


def gauges(name: str, text: str, labels: Sequence[str], values: Labelled) -> GaugeMetricFamily:
    """Return a family of values by labels."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels, unit=_unit(name))
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def counter(name: str, text: str, value: float | None) -> CounterMetricFamily:
    """Return a count that only grows, or a family without one where it is unknown."""
    return counters(name, text, (), {} if value is None else {(): value})


def counters(name: str, text: str, labels: Sequence[str], values: Labelled) -> CounterMetricFamily:
    """Return counts that only grow, by labels."""
    family = CounterMetricFamily(PREFIX + name, text, labels=labels, unit=_unit(name))
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def histogram(name: str, text: str, found: Iterable[HistogramNow]) -> HistogramMetricFamily:
    """Return a family of what was observed how often; without any observation where none is."""
    family = HistogramMetricFamily(PREFIX + name, text, unit=_unit(name))
    for one in found:
        below, buckets = 0, []
        for bound, count in zip((*one.bounds, float("inf")), one.counts, strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else repr(float(bound)), below))
        family.add_metric((), buckets, one.total)
    return family


def spread(name: str, text: str, values: Sequence[float]) -> Metric:
    """Return smallest, median, nine tenths and largest of `values`, where there are any."""
    family = Metric(PREFIX + name, text, "summary", unit=_unit(name))
    ordered = sorted(values)
    for quantile in QUANTILES if ordered else ():
        value = ordered[round(quantile * (len(ordered) - 1))]
        family.add_sample(family.name, {"quantile": f"{quantile:g}"}, value)
    return family


def _unit(name: str) -> str:
    last = name.removesuffix("_total").rpartition("_")[2]
    return last if last in _UNITS else ""

"""The numbers that stand for a seed as a whole; reports and comparisons take them in order."""

from __future__ import annotations

from fleetledger.simulator.metrics.headline_costs import COST, DETECTION
from fleetledger.simulator.metrics.headline_learning import ACCURACY, DEVICES
from fleetledger.simulator.metrics.headline_novelty import LOOKING
from fleetledger.simulator.metrics.metric import MeasuredSeed

HEADLINE = ACCURACY + DEVICES + COST + DETECTION + LOOKING
METRICS = {metric.name: metric for metric in HEADLINE}
"""By name."""


def headline(measured: MeasuredSeed) -> dict[str, float]:
    """Return every number of `HEADLINE` that is known, by name."""
    values = {metric.name: metric.take(measured) for metric in HEADLINE}
    return {name: float(value) for name, value in values.items() if value is not None}

"""The numbers that stand for a seed as a whole; reports and comparisons take them in order."""

from __future__ import annotations

from fleetledger.simulator.metrics.headline_costs import COST, DETECTION
from fleetledger.simulator.metrics.headline_learning import ACCURACY, DEVICES
from fleetledger.simulator.metrics.metric import MeasuredSeed, Metric
from fleetledger.simulator.metrics.novelty_outcomes import noticing


def _missed(seed: MeasuredSeed) -> float | None:
    found = noticing(seed.stages)
    began = sum(item.began for item in found)
    return sum(item.missed for item in found) / began if began else None


def _false_alarms(seed: MeasuredSeed) -> float | None:
    checks = sum(len(stage.novelty_checks) for stage in seed.stages if stage.stage > 1)
    alarms = sum(item.false_alarms for item in noticing(seed.stages))
    return alarms / checks if checks else None


def _gradients(seed: MeasuredSeed) -> float | None:
    found = [stage.proxy for stage in seed.stages if stage.proxy is not None]
    counted = [
        (item.gradient_bytes, item.weight_bytes)
        for item in found
        if item.gradient_bytes is not None
    ]
    weights = sum(sent for _, sent in counted)
    return sum(received for received, _ in counted) / weights if weights else None


LOOKING = (
    Metric(
        "tasks_missed",
        "tasks that devices did not notice",
        "share",
        "lower",
        "Of the tasks that began on devices after the first stage, the share no check noticed.",
        _missed,
    ),
    Metric(
        "novelty_checks_false_alarms",
        "novelty checks that were false alarms",
        "share",
        "lower",
        "Of the checks after the first stage, the share taken for a new task that was none.",
        _false_alarms,
    ),
    Metric(
        "gradients_beside_weights",
        "gradients beside weights",
        "share",
        "lower",
        "Bytes of gradients that a proxy received, by the bytes of weights that devices sent.",
        _gradients,
    ),
)

HEADLINE = ACCURACY + DEVICES + COST + DETECTION + LOOKING
METRICS = {metric.name: metric for metric in HEADLINE}
"""By name."""


def headline(measured: MeasuredSeed) -> dict[str, float]:
    """Return every number of `HEADLINE` that is known, by name."""
    values = {metric.name: metric.take(measured) for metric in HEADLINE}
    return {name: float(value) for name, value in values.items() if value is not None}

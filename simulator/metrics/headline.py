"""Numbers that stand for a seed as a whole; reports and comparisons take them in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry, RegistryError
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.headline_costs import COST, DETECTION
from fleetledger.simulator.metrics.headline_learning import ACCURACY, DEVICES, DOMAINS
from fleetledger.simulator.metrics.metric import Better, MeasuredSeed, Metric, Unit
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


def _taken(name: str, value: object) -> Metric:
    """Return the metric by a function of the answers of a seed and the counts of its plan."""
    if isinstance(value, Metric):
        return value
    return own_metric(name, value)


def own_metric(
    name: str, value: object, *, title: str = "", unit: Unit = "number", better: Better = "higher"
) -> Metric:
    """Return the metric by a function of answers and plan, whose docstring is its meaning.

    Raises `RegistryError` for what is no function, or a unit that is none.
    """
    if not callable(value):
        raise RegistryError(f"metric: {name!r} is {shorten(value)}; give a function")
    if unit not in get_args(Unit) or better not in get_args(Better):
        raise RegistryError(
            f"metric: {name!r} has the unit {unit!r}, {better!r} is better; units are "
            f"{', '.join(get_args(Unit))}, and better is higher or lower"
        )
    meaning = " ".join((value.__doc__ or "").split()) or "A number of one's own."

    def take(seed: MeasuredSeed) -> Any:  # noqa: ANN401 - checked by `headline`
        return value(seed.answers, seed.plan)

    return Metric(name, title or name.replace("_", " "), unit, better, meaning, take)


METRICS = Registry[Metric]("metric", "fleetledger.metrics", _taken).own(
    {metric.name: metric for metric in ACCURACY + DEVICES + DOMAINS + COST + DETECTION + LOOKING}
)
"""By name, in the order of reports; every run measures all."""


def metric_of(name: str) -> Metric:
    """Return the metric by name, or the part `<name>_<key>` of one; a plain one if unknown here."""
    if name in METRICS:
        return METRICS[name]
    whole = next((each for each in METRICS if name.startswith(f"{each}_")), None)
    of = METRICS[whole] if whole else None
    unit, better = (of.unit, of.better) if of else ("number", "higher")
    meaning = of.meaning if of else "A number of a metric of one's own."
    return Metric(name, name.replace("_", " "), unit, better, meaning, lambda _seed: None)


def metrics_of(names: Iterable[str]) -> list[Metric]:
    """Return the metrics of some names, in the order of `METRICS`; others come last."""
    order = {name: position for position, name in enumerate(METRICS)}
    told = sorted(dict.fromkeys(names), key=lambda name: order.get(name, len(order)))
    return [metric_of(name) for name in told]


def headline(measured: MeasuredSeed) -> dict[str, float]:
    """Return every number of `METRICS` that is known, by name.

    A function that returns a mapping gives a number for each key, called `<name>_<key>`. Raises
    `MetricsError` where a function returns what is no finite number.
    """
    found: dict[str, float] = {}
    for name, metric in METRICS.items():
        told = metric.take(measured)
        parts = told if isinstance(told, Mapping) else {"": told}
        for key, value in parts.items():
            if value is not None:
                whole = f"{name}_{key}" if key else name
                found[whole] = _finite(whole, value)
    return found


def _finite(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise MetricsError(f"metric {name}: {value!r}; return a number, or None") from error
    if not math.isfinite(number):
        raise MetricsError(f"metric {name}: {number}; return a finite number, or None")
    return number

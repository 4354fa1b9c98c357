"""Methods whose devices look for new tasks by themselves, and have a proxy."""

from __future__ import annotations

from collections.abc import Callable

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import Noticing, StageMetrics
from fleetledger.simulator.records import ProxyRecord
from fleetledger.simulator.report.curves import mean_by_stage
from fleetledger.simulator.report.numbers import NOTHING, byte_scale, count
from fleetledger.simulator.report.tables.table import Table

PRINTED_SHARE = 0.00364
"""Gradients beside models, as LGA prints them for CIFAR-100 and ResNet-18: 16.5 MB of 4,537."""


def has_novelty_checks(results: RunResults) -> bool:
    """Tell whether devices looked."""
    return any(seed.noticing for seed in results.seeds.values())


def noticing_table(results: RunResults) -> Table:
    """Return which tasks each device noticed, added up over seeds, and the fleet's sum."""
    by_device: dict[str, list[Noticing]] = {}
    for seed in results.seeds.values():
        for item in seed.noticing:
            by_device.setdefault(item.device, []).append(item)
    rows = [_row(device, items) for device, items in by_device.items()]
    rows.append(_row("all", [item for items in by_device.values() for item in items]))
    head = ("device", "tasks that began", "noticed at once", "late", "missed", "false alarms")
    note = (
        "Tasks that began on a device after the first stage, added up over seeds; at once: at the "
        "device's first look. A false alarm is a transition of a device that got nothing new, or "
        "a second one in a stage. novelty_checks.csv has every check."
    )
    return Table("What the devices noticed by looking", head, tuple(rows), note)


def _row(name: str, items: list[Noticing]) -> tuple[str, ...]:
    return (
        name,
        count(sum(item.began for item in items)),
        count(sum(item.at_once for item in items)),
        count(sum(item.late for item in items)),
        count(sum(item.missed for item in items)),
        count(sum(item.false_alarms for item in items)),
    )


def has_proxy(results: RunResults) -> bool:
    """Tell whether the fleet had a proxy, whose bytes were counted, in every stage of all seeds."""
    return all(
        stage.proxy is not None and stage.proxy.gradient_bytes is not None
        for seed in results.seeds.values()
        for stage in seed.stages[: results.stages]
    )


def proxy_table(results: RunResults) -> Table:
    """Return what went to the proxy in each stage, beside the weights that devices sent."""
    gradients = mean_by_stage(results, _of_proxy(lambda proxy: proxy.gradient_bytes))
    weights = mean_by_stage(results, _of_proxy(lambda proxy: proxy.weight_bytes))
    scored = mean_by_stage(results, _of_proxy(lambda proxy: proxy.scored))
    models = mean_by_stage(results, _of_proxy(lambda proxy: proxy.model_bytes))
    scale, unit = byte_scale(float(max(gradients.max(), weights.max(), models.max())))
    head = (
        "stage",
        f"gradients to the proxy, {unit}",
        f"weights that devices sent, {unit}",
        "gradients beside weights, %",
        "models scored",
        f"fetched to score, {unit}",
    )
    rows = [
        _proxy_row(str(stage + 1), scale, values)
        for stage, values in enumerate(zip(gradients, weights, scored, models, strict=True))
    ]
    sums = (gradients.sum(), weights.sum(), scored.sum(), models.sum())
    note = (
        "Means over seeds. Weights are payloads of trained networks, one way; bytes of the proxy "
        f"are what its transport received. LGA prints {100 * PRINTED_SHARE:.3f} % for CIFAR-100 "
        "and ResNet-18."
    )
    return Table("Bytes of the proxy", head, (*rows, _proxy_row("all", scale, sums)), note)


def _of_proxy(take: Callable[[ProxyRecord], int | None]) -> Callable[[StageMetrics], float | None]:
    return lambda stage: None if stage.proxy is None else take(stage.proxy)


def _proxy_row(
    name: str, scale: float, values: tuple[float, float, float, float]
) -> tuple[str, ...]:
    gradients, weights, scored, models = values
    return (
        name,
        f"{gradients / scale:,.2f}",
        f"{weights / scale:,.2f}",
        f"{100 * gradients / weights:.3f}" if weights else NOTHING,
        count(scored),
        f"{models / scale:,.2f}",
    )

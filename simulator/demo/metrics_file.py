"""`metrics.json`: everything a run measured, as plain JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from schemas.values import DeviceId
from simulator.demo import platform_facts
from simulator.demo.plan import Plan
from simulator.demo.results import StageResult, task_scores, traffic_of_stage
from simulator.demo.settings import DemoSettings

FORMAT = 1
"""Raised when a field changes its meaning or goes."""


@dataclass(frozen=True)
class RunFacts:
    """What a run gave beside its stages."""

    settings: DemoSettings
    plan: Plan
    results: Sequence[StageResult]
    pooled: Sequence[float]
    """Accuracy (0 to 1) of the pooled reference after each stage."""
    ridge: float
    broker: dict[str, str]
    ledger: dict[str, Any]
    resident_mib: dict[str, float]
    """Memory of each program at the end of the last stage, by name."""
    reports: Sequence[dict[str, Any]]
    """What devices reported as new."""
    problems: Sequence[str]
    seconds: float
    """From the start of the broker to the last agent's accuracy."""


def metrics(facts: RunFacts) -> dict[str, Any]:
    """Return the content of `metrics.json`; docs/demo.md explains every field."""
    return {
        "format": FORMAT,
        "settings": _settings(facts.settings) | {"ridge": facts.ridge},
        "final": _final(facts),
        "stages": [_stage(facts, position) for position in range(len(facts.results))],
        "accuracy_by_task": _matrix(facts),
        "devices": {device: _device(facts, device) for device in facts.plan.devices},
        "resident_mib": facts.resident_mib,
        "reports": list(facts.reports),
        "problems": list(facts.problems),
        "ledger": facts.ledger,
        "broker": facts.broker,
        "machine": platform_facts.machine(),
        "versions": platform_facts.versions(),
    }


def dense_bytes(settings: DemoSettings) -> int:
    """Return 4 (M^2 + M C): one device's float32 statistics of a stage, as the paper counts."""
    width = settings.map_width
    return 4 * (width * width + width * settings.classes_per_stage)


def _settings(settings: DemoSettings) -> dict[str, Any]:
    values = asdict(settings)
    return values | {"out": str(settings.out)}


def _final(facts: RunFacts) -> dict[str, Any]:
    last, scores = facts.results[-1], task_scores(facts.results)
    return {
        "accuracy": last.accuracy,
        "pooled_float64_accuracy": facts.pooled[-1],
        "difference_points": _points(facts, len(facts.results) - 1),
        "average_accuracy_of_tasks": scores.final_average_accuracy(),
        "average_incremental_accuracy": scores.average_incremental_accuracy(),
        "average_incremental_accuracy_of_tasks": scores.average_incremental_accuracy("tasks"),
        "forgetting_points": 100 * scores.forgetting(),
        "model_version": last.version,
        "aggregate": last.aggregate,
        "bytes_up": sum(total.up for total in last.traffic.values()),
        "bytes_down": sum(total.down for total in last.traffic.values()),
        "seconds": round(facts.seconds, 3),
    }


def _stage(facts: RunFacts, position: int) -> dict[str, Any]:
    result = facts.results[position]
    up, down = traffic_of_stage(facts.results, position)
    return {
        "stage": result.stage,
        "classes": list(result.class_names),
        "opened": result.opened,
        "accuracy": result.accuracy,
        "pooled_float64_accuracy": facts.pooled[position],
        "difference_points": _points(facts, position),
        "forgetting_points": 100 * task_scores(facts.results).forgetting(after=position),
        "by_class": {
            name: {"correct": result.correct[name], "total": total}
            for name, total in result.total.items()
        },
        "model_version": result.version,
        "aggregate": result.aggregate,
        "manifest": result.manifest,
        "providers": list(result.providers),
        "contributions": result.contributions,
        "payload_bytes": result.payload_bytes,
        "payload_share_of_dense": result.payload_bytes
        / (dense_bytes(facts.settings) * len(facts.plan.devices)),
        "bytes_up": up,
        "bytes_down": down,
        "solve_seconds": round(result.solve_seconds, 3),
        "seconds": round(result.seconds, 3),
    }


def _matrix(facts: RunFacts) -> list[list[float]]:
    accuracy = task_scores(facts.results).accuracy()
    return [[float(value) for value in row[: t + 1]] for t, row in enumerate(accuracy)]


def _device(facts: RunFacts, device: DeviceId) -> dict[str, Any]:
    traffic = facts.results[-1].traffic[device]
    return {
        "private_images": [len(stage.private[device]) for stage in facts.plan.stages],
        "test_images": len(facts.plan.test[device]),
        "bytes_up": traffic.up,
        "bytes_down": traffic.down,
    }


def _points(facts: RunFacts, position: int) -> float:
    """Return how far the devices are above the pooled reference, in percentage points."""
    return 100 * (facts.results[position].accuracy - facts.pooled[position])

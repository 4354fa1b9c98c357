"""`results.csv`, `devices.csv` and `novelty_checks.csv`, a line per number, device or check."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleetledger.simulator.metrics import seed_metrics
from fleetledger.simulator.metrics.novelty_outcomes import judged
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.score import name_in_files
from fleetledger.simulator.records import DeviceRecord, ProxyRecord, StageRecord

Row = tuple[object, ...]
_SCALARS = (
    "accuracy",
    "accuracy_by_tasks",
    "old_accuracy",
    "new_accuracy",
    "forgetting",
    "recall",
    "f1",
    "recall_batchwise128",
    "f1_batchwise128",
    "pooled_accuracy",
    "accuracy_on_devices",
    "online",
    "shared_images",
    "arrived_samples",
    "counted_samples",
    "contributions",
    "answers",
    "fleet_seconds",
    "peak_memory_mib",
)
_IOU = "iou_of_"
"""Before the name of a class, which stays as it is."""
_BY_KIND = ("sent", "received")
"""Bytes by kind of payload."""
_OF_ROUNDS = (
    "accuracy",
    "ensemble_accuracy",
    "mean_accuracy",
    "client_drift",
    "loss",
    "steps",
    "training_seconds",
)
_SPREADS = ("device_accuracy", "bytes_up", "bytes_down", "compute_seconds", "stored_samples")


def write_results_csv(path: Path, results: RunResults) -> None:
    """Write seed, stage, metric and value; a number of a whole seed has no stage.

    Accuracies are shares from 0 to 1; a line stands only for what is known. Of a run that is scored
    by mIoU names say `miou` for accuracy.
    """
    rows = (
        (seed, stage, name if name.startswith(_IOU) else name_in_files(results.score, name), value)
        for seed, metrics in results.seeds.items()
        for stage, name, value in _seed_rows(metrics)
    )
    _write(path, ("seed", "stage", "metric", "value"), rows)


def write_devices_csv(path: Path, seeds: Iterable[tuple[int, Iterable[StageRecord]]]) -> None:
    """Write what was recorded of each device in each stage of each seed."""
    fields = tuple(name for name in DeviceRecord.model_fields if name not in _BY_KIND)
    kept = [(seed, record) for seed, records in seeds for record in records]
    columns = sorted(
        {
            (field, kind)
            for _, record in kept
            for device in record.devices.values()
            for field in _BY_KIND
            for kind in getattr(device, field)
        }
    )
    rows = (
        (
            seed,
            record.stage,
            name,
            *(getattr(device, field) for field in fields),
            *(getattr(device, field).get(kind, 0) for field, kind in columns),
        )
        for seed, record in kept
        for name, device in record.devices.items()
    )
    by_kind = (f"{field}_{kind}" for field, kind in columns)
    _write(path, ("seed", "stage", "device", *fields, *by_kind), rows)


def write_novelty_csv(path: Path, results: RunResults) -> None:
    """Write every novelty check of every device: entropy in nats, and what it was."""
    rows = (
        (
            seed,
            item.stage,
            item.look.round,
            item.look.device,
            item.look.entropy,
            item.look.images,
            item.begins,
            item.look.transition,
            item.verdict,
        )
        for seed, metrics in results.seeds.items()
        for stage in metrics.stages
        for item in judged(stage)
    )
    head = ("seed", "stage", "round", "device", "entropy", "images", "task_began", "transition")
    _write(path, (*head, "verdict"), rows)


def _write(path: Path, head: Row, rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def _seed_rows(metrics: seed_metrics.SeedMetrics) -> Iterator[tuple[int | str, str, float]]:
    for name, value in metrics.headline.items():
        yield "", name, value
    for stage in metrics.stages:
        for name, known in _stage_values(stage):
            if known is not None:
                yield stage.stage, name, known


def _stage_values(stage: seed_metrics.StageMetrics) -> Iterator[tuple[str, float | None]]:
    for name in _SCALARS:
        yield name, getattr(stage, name)
    yield from _parts_of_accuracy(stage)
    if stage.inference is not None:
        yield "inference_seconds_per_scene", stage.inference.seconds_per_scene
    yield "devices", stage.devices
    for group, devices in stage.groups.items():
        yield f"devices_{group}", devices
    for name in _SPREADS:
        yield from _spread_values(name, getattr(stage, name))
    for field in _BY_KIND:
        for kind, size in getattr(stage, field).items():
            yield f"{field}_{kind}", size
    for phase, seconds in stage.seconds.items():
        yield f"seconds_{phase}", seconds
    for item in stage.detection:
        yield from _detection_values(item)
    if stage.proxy is not None:
        for name in ProxyRecord.model_fields:
            yield f"proxy_{name}", getattr(stage.proxy, name)
    for each in stage.rounds:
        for name in _OF_ROUNDS:
            yield f"round_{each.number}_{name}", getattr(each, name)


def _parts_of_accuracy(stage: seed_metrics.StageMetrics) -> Iterator[tuple[str, float | None]]:
    for task, accuracy in enumerate(stage.accuracy_of_tasks, 1):
        yield f"accuracy_of_task_{task}", accuracy
    for class_name, iou in stage.class_iou.items():
        yield f"{_IOU}{class_name}", iou


def _spread_values(
    name: str, spread: seed_metrics.DeviceSpread | None
) -> Iterator[tuple[str, float]]:
    if spread is not None:
        for field in seed_metrics.DeviceSpread.model_fields:
            yield f"{name}_{field}", getattr(spread, field)


def _detection_values(item: seed_metrics.Detection) -> Iterator[tuple[str, float]]:
    for field in ("with_new", "noticed", "without_new", "alarmed", "false_alarms"):
        yield f"{item.why.replace(' ', '_')}_{field}", getattr(item, field)

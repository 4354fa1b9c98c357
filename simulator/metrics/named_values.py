"""Numbers of seeds, stages and rounds by the names that files, frames and callbacks share."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.simulator.metrics import seed_metrics
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.score import name_in_files
from fleetledger.simulator.records import ProxyRecord, RoundRecord

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
    "fleet_seconds",
)
_SPREADS = (
    "device_accuracy",
    "own_accuracy",
    "bytes_up",
    "bytes_down",
    "compute_seconds",
    "stored_samples",
)


def result_rows(results: RunResults) -> Iterator[tuple[int, int | None, str, float]]:
    """Yield seed, stage, name and value as `results.csv` has them; no stage for a whole seed.

    Of a run that is scored by mIoU names say `miou` for accuracy.
    """
    for seed, metrics in results.seeds.items():
        whole = [(None, *item) for item in metrics.headline.items()]
        parts = [(stage.stage, *item) for stage in metrics.stages for item in stage_values(stage)]
        for number, name, value in [*whole, *parts]:
            said = name if name.startswith(_IOU) else name_in_files(results.score, name)
            yield seed, number, said, value


def stage_values(stage: seed_metrics.StageMetrics) -> Iterator[tuple[str, float]]:
    """Yield every number of a stage that is known, with its rounds'."""
    for name, value in _stage_values(stage):
        if value is not None:
            yield name, value


def round_values(record: RoundRecord) -> Iterator[tuple[str, float]]:
    """Yield every number of a round that is known."""
    for name in RoundRecord.model_fields:
        value = getattr(record, name)
        if value is not None:
            yield name, float(value)


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
    for domain, accuracy in stage.domain_accuracy.items():
        yield f"accuracy_of_domain_{domain}", accuracy


def _spread_values(
    name: str, spread: seed_metrics.DeviceSpread | None
) -> Iterator[tuple[str, float]]:
    if spread is not None:
        for field in seed_metrics.DeviceSpread.model_fields:
            yield f"{name}_{field}", getattr(spread, field)


def _detection_values(item: seed_metrics.Detection) -> Iterator[tuple[str, float]]:
    for field in ("with_new", "noticed", "without_new", "alarmed", "false_alarms"):
        yield f"{item.why.replace(' ', '_')}_{field}", getattr(item, field)

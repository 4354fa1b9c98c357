"""`results.csv`, `devices.csv` and `novelty_checks.csv`, a line per number, device or check."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from fleetledger.simulator.metrics.named_values import result_rows
from fleetledger.simulator.metrics.novelty_outcomes import judged
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.records import DeviceRecord, StageRecord

Row = tuple[object, ...]
_BY_KIND = ("sent", "received")
"""Bytes by kind of payload."""


def write_results_csv(path: Path, results: RunResults) -> None:
    """Write seed, stage, metric and value; a number of a whole seed has no stage.

    Accuracies are shares from 0 to 1; a line stands only for what is known. Of a run that is scored
    by mIoU names say `miou` for accuracy.
    """
    _write(path, ("seed", "stage", "metric", "value"), result_rows(results))


def write_devices_csv(path: Path, seeds: Iterable[tuple[int, Iterable[StageRecord]]]) -> None:
    """Write what was recorded of each device in each stage of each seed."""
    fields = tuple(name for name in DeviceRecord.model_fields if name not in _BY_KIND)
    kept = [(seed, record) for seed, records in seeds for record in records]
    own = any(record.own_answers for _, record in kept)
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
            *(record.own_answers.get(name, (0, 0)) if own else ()),
        )
        for seed, record in kept
        for name, device in record.devices.items()
    )
    by_kind = (f"{field}_{kind}" for field, kind in columns)
    tested = ("own_right", "own_asked") if own else ()
    _write(path, ("seed", "stage", "device", *fields, *by_kind, *tested), rows)


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

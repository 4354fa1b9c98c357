"""Metrics of one seed, from its records, answers and plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.headline import headline
from fleetledger.simulator.metrics.metric import MeasuredSeed
from fleetledger.simulator.metrics.novelty_outcomes import noticing
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.seed_metrics import DeviceMetrics, Distribution, SeedMetrics
from fleetledger.simulator.metrics.stage_measurement import ScoredSeed, measure_stage, own_shares
from fleetledger.simulator.records import StageRecord

SHOWN_IN_ORDER = 30
"""Up to so many devices keep the order of joining; more are sorted by what they hold."""
MOST_SHOWN = 200
"""Of more devices, evenly many of the sorted are shown."""


def measure_seed(
    records: Sequence[StageRecord], answers: AnyAnswers, plan_counts: PlanCounts
) -> SeedMetrics:
    """Return everything that is measured of one seed.

    `records` and `answers` are of the same stages, from the first; `PlanCounts.of` makes the plan's
    counts. Raises `MetricsError` when they do not fit together.
    """
    _check(records, answers, plan_counts)
    seed = ScoredSeed(answers, plan_counts, answers.learned(plan_counts.class_names))
    stages = tuple(measure_stage(record, seed) for record in records)
    devices = _measure_devices(records, seed)
    names = [name for record in records for name in record.class_names]
    return SeedMetrics(
        score=answers.SCORE,
        headline=headline(MeasuredSeed(stages, devices, answers, plan_counts)),
        stages=stages,
        task_confusion=tuple(
            tuple(int(count) for count in row) for row in answers.task_confusion(answers.stages)
        ),
        devices=devices,
        distribution=distribution(plan_counts, names),
        noticing=noticing(stages),
    )


def _check(records: Sequence[StageRecord], answers: AnyAnswers, counts: PlanCounts) -> None:
    stages = [record.stage for record in records]
    if stages != list(range(1, answers.stages + 1)) or len(counts.samples) < len(stages):
        raise MetricsError(
            f"stages: records of {stages}, answers of {answers.stages}, a plan of "
            f"{len(counts.samples)}; give those of one seed, from stage 1"
        )
    if len(answers.stage_of_class) != len(counts.class_names):
        raise MetricsError(
            f"classes: {len(answers.stage_of_class)} in the answers, {len(counts.class_names)} in "
            "the plan; give those of one data set"
        )
    empty = [record.stage for record in records if not record.devices]
    if empty:
        raise MetricsError(f"stages: {empty} have no device; give records with devices")
    unknown = {name for record in records for name in record.devices} - set(counts.devices)
    if unknown:
        raise MetricsError(f"devices: {sorted(unknown)[:3]} are not in the plan; give its own")


def _measure_devices(records: Sequence[StageRecord], seed: ScoredSeed) -> tuple[DeviceMetrics, ...]:
    accuracy = seed.accuracy_of_devices(records[-1])
    given = seed.counts.so_far(len(records))
    samples, classes = given.sum(axis=1), np.count_nonzero(given, axis=1)
    met = dict.fromkeys(name for record in records for name in record.devices)
    return tuple(
        _measure_device(records, device, (int(samples[row]), int(classes[row])), accuracy)
        for row, device in enumerate(seed.counts.devices)
        if device in met
    )


def _measure_device(
    records: Sequence[StageRecord],
    device: DeviceId,
    held: tuple[int, int],
    accuracy: dict[DeviceId, float],
) -> DeviceMetrics:
    there = [record for record in records if device in record.devices]
    states = [record.devices[device] for record in there]
    return DeviceMetrics(
        device=device,
        joined=there[0].stage,
        stages=len(there),
        online=sum(state.online for state in states),
        group=states[-1].group,
        samples=held[0],
        classes=held[1],
        bytes_up=sum(state.bytes_up for state in states),
        bytes_down=sum(state.bytes_down for state in states),
        compute_seconds=sum(state.compute_seconds for state in states),
        stored_samples=states[-1].stored_samples,
        shared_images=sum(state.shared_images for state in states),
        shared_bytes=sum(state.sent.get("images", 0) for state in states),
        accuracy=accuracy.get(device),
        own_accuracy=own_shares(records[-1]).get(device),
    )


def distribution(counts: PlanCounts, class_names: Sequence[ClassName]) -> Distribution:
    """Return samples by device and class; `class_names` in the order of coming.

    Raises `MetricsError` for a class that the plan does not know.
    """
    label = {name: number for number, name in enumerate(counts.class_names)}
    unknown = [name for name in class_names if name not in label]
    if unknown:
        raise MetricsError(f"classes: {unknown[:3]} are not in the plan; give its own names")
    classes = [label[name] for name in class_names]
    held = counts.so_far(len(counts.samples))[:, classes]
    shown = _chosen(held)
    return Distribution(
        devices=tuple(counts.devices[number] for number in shown),
        devices_in_fleet=len(counts.devices),
        class_names=tuple(class_names),
        samples=tuple(tuple(int(value) for value in held[number]) for number in shown),
    )


def _chosen(held: NDArray[np.int64]) -> list[int]:
    """Return rows: sorted by the first class that is held, then by the class held most."""
    devices = len(held)
    if devices <= SHOWN_IN_ORDER:
        return list(range(devices))
    some = held > 0
    first = np.where(some.any(axis=1), some.argmax(axis=1), held.shape[1])
    order = np.lexsort((held.argmax(axis=1), first))
    if devices > MOST_SHOWN:
        order = order[np.linspace(0, devices - 1, MOST_SHOWN).round().astype(np.int64)]
    return [int(number) for number in order]

"""Metrics of one stage, from its record and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.any_answers import AnyAnswers, Learned
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.seed_metrics import (
    Detection,
    DeviceSpread,
    StageMetrics,
    TransitionKind,
)
from fleetledger.simulator.records import StageRecord, TransitionRecord

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredSeed:
    """What a stage is measured from, beside its record."""

    answers: AnyAnswers
    counts: PlanCounts
    learned: tuple[Learned, ...]
    """By stage."""

    def accuracy_of_devices(self, record: StageRecord) -> dict[DeviceId, float]:
        """Return the accuracy of the devices that are there and hold samples; see `devices`."""
        by_class = self.answers.class_accuracy(record.stage)
        if by_class is None:
            return {}
        values = device_accuracy(self.counts.so_far(record.stage), by_class)
        return {
            device: float(value)
            for device, value in zip(self.counts.devices, values, strict=True)
            if device in record.devices and not np.isnan(value)
        }

    def devices_with_new(self, stage: int) -> set[DeviceId]:
        """Return the devices to which the plan gives images of the stage's own classes."""
        new = self.answers.stage_of_class == stage
        given = self.counts.samples[stage - 1][:, new].any(axis=1)
        return {self.counts.devices[number] for number in np.flatnonzero(given)}


def measure_stage(record: StageRecord, seed: ScoredSeed) -> StageMetrics:
    """Return the metrics of one stage."""
    devices = record.devices.values()
    own = list(seed.accuracy_of_devices(record).values())
    return StageMetrics(
        stage=record.stage,
        class_names=record.class_names,
        opened_by=record.opened_by,
        head=record.head,
        **vars(seed.learned[record.stage - 1]),
        pooled_accuracy=record.pooled_accuracy,
        accuracy_on_devices=record.accuracy_on_devices,
        device_accuracy=spread(own) if own else None,
        domain_accuracy=record.domain_accuracy,
        own_accuracy=spread(share) if (share := own_shares(record).values()) else None,
        groups=dict(Counter(device.group for device in devices)),
        online=sum(device.online for device in devices),
        bytes_up=spread(device.bytes_up for device in devices),
        bytes_down=spread(device.bytes_down for device in devices),
        compute_seconds=spread(device.compute_seconds for device in devices),
        stored_samples=spread(device.stored_samples for device in devices),
        sent=dict(sum((Counter(device.sent) for device in devices), Counter())),
        received=dict(sum((Counter(device.received) for device in devices), Counter())),
        shared_images=sum(device.shared_images for device in devices),
        arrived_samples=sum(device.arrived_samples for device in devices),
        counted_samples=sum(device.counted_samples for device in devices),
        contributions=record.contributions,
        answers=record.answers,
        fleet_seconds=record.fleet_seconds,
        seconds=record.seconds,
        peak_memory_mib=record.peak_memory_mib,
        inference=record.inference,
        detection=detect(record, seed.devices_with_new(record.stage)),
        rounds=record.rounds,
        given_new=_given_new(record, seed) if record.novelty_checks else (),
        novelty_checks=record.novelty_checks,
        proxy=record.proxy,
        notes=record.notes,
    )


def own_shares(record: StageRecord) -> dict[DeviceId, float]:
    """Return the share of right answers on each device's own test part."""
    return {device: right / asked for device, (right, asked) in record.own_answers.items()}


def _given_new(record: StageRecord, seed: ScoredSeed) -> tuple[DeviceId, ...]:
    new = seed.devices_with_new(record.stage)
    return tuple(name for name, device in record.devices.items() if device.online and name in new)


def spread(values: Iterable[float]) -> DeviceSpread:
    """Return the spread of a quantity over at least one device."""
    held = np.array(list(values), np.float64)
    return DeviceSpread(
        total=float(held.sum()),
        mean=float(held.mean()),
        deviation=float(held.std()),
        lowest=float(held.min()),
        fifth_percentile=float(np.percentile(held, 5)),
        highest=float(held.max()),
    )


def device_accuracy(samples: NDArray[np.int64], class_accuracy: Floats) -> Floats:
    """Return sum_c p_k(c) acc_c for each device k, (K,).

    p_k is the device's own class distribution, `samples` (K, C) divided by its row sums: the test
    set is the common one, weighted as the device's training samples so far. Classes without test
    samples (NaN in `class_accuracy`, (C,)) are left out of p_k; a device that then has none is NaN.
    """
    measured = ~np.isnan(class_accuracy)
    own = samples[:, measured].astype(np.float64)
    held = own.sum(axis=1)
    accuracy: Floats = np.full(len(samples), np.nan)
    np.divide(own @ class_accuracy[measured], held, out=accuracy, where=held > 0)
    return accuracy


def detect(record: StageRecord, given_new: Set[DeviceId]) -> tuple[Detection, ...]:
    """Return one `Detection` per kind of report; none for the first stage.

    The operator opens the first stage, when nobody knows a class. `given_new` are the devices
    that the plan gives images of the stage's classes; one that is offline waits for them, and is
    counted neither as with nor as without.
    """
    if record.stage == 1:
        return ()
    online = {device for device, state in record.devices.items() if state.online}
    return tuple(
        _detect(
            why,
            [report for report in record.transitions if report.why == why],
            online & given_new,
            online - given_new,
        )
        for why in get_args(TransitionKind)
    )


def _detect(
    why: TransitionKind,
    reports: list[TransitionRecord],
    with_new: Set[DeviceId],
    without_new: Set[DeviceId],
) -> Detection:
    first = _first_true_reports(reports)
    noticed = [first[device] for device in sorted(first.keys() & with_new)]
    false = [report for report in reports if not report.is_new]
    return Detection(
        why=why,
        with_new=len(with_new),
        noticed=len(noticed),
        without_new=len(without_new),
        alarmed=len({report.device for report in false} & without_new),
        false_alarms=len(false),
        delay_images=tuple(report.images for report in noticed),
        delay_seconds=tuple(report.seconds for report in noticed),
    )


def _first_true_reports(reports: list[TransitionRecord]) -> dict[DeviceId, TransitionRecord]:
    true = sorted((report for report in reports if report.is_new), key=lambda item: -item.seconds)
    return {report.device: report for report in true}

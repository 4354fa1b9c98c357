"""Metrics of one stage, from its record and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.confusion import class_accuracy
from fleetledger.simulator.metrics.detection import detect
from fleetledger.simulator.metrics.devices import device_accuracy
from fleetledger.simulator.metrics.learned import Learned
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.seed_metrics import DeviceSpread, StageMetrics
from fleetledger.simulator.records import StageRecord


@dataclass(frozen=True)
class ScoredSeed:
    """What a stage is measured from, beside its record."""

    answers: AnyAnswers
    counts: PlanCounts
    learned: tuple[Learned, ...]
    """By stage."""

    def accuracy_of_devices(self, record: StageRecord) -> dict[DeviceId, float]:
        """Return the accuracy of the devices that are there and hold samples; see `devices`.

        Of answers of pixels none: scenes hold many classes, so a device has no shares of them.
        """
        if isinstance(self.answers, PixelAnswers):
            return {}
        values = device_accuracy(
            self.counts.so_far(record.stage), class_accuracy(self.answers, record.stage)
        )
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

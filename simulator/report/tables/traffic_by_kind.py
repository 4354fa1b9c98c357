"""What crossed of each kind, and which images devices shared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import DeviceMetrics, StageMetrics
from fleetledger.simulator.report.curves import Floats, by_stage
from fleetledger.simulator.report.numbers import count, show
from fleetledger.simulator.report.tables import table

WEIGHTS = "weights"
_ORDER = ("images", "logits", WEIGHTS)
"""Kinds that are told first; others follow by name."""

Take = Callable[[StageMetrics], dict[str, int]]


def has_kinds(results: RunResults) -> bool:
    """Tell whether more crossed than weights, in rounds."""
    kinds = _kinds(results)
    return len(kinds) > 1 and WEIGHTS in kinds


def kind_table(results: RunResults) -> table.Table:
    """Return the bytes of each stage by kind and direction, and what weights alone come to."""
    both = by_stage(results, lambda stage: _total(stage.sent) + _total(stage.received))
    alone = by_stage(results, _weights_alone)
    columns = [table.stage_column(results.stages)]
    for kind in _kinds(results):
        for name, take in (("up", _sent), ("down", _received)):
            values = by_stage(results, _of_kind(take, kind))
            if values.any():
                columns.append(table.quantities(f"{kind} {name}", values, "bytes"))
    columns += [
        table.quantities("all", both, "bytes"),
        table.quantities("weights alone", alone, "bytes"),
        table.TableColumn("all beside weights alone", _times(both, alone)),
        table.counts("images shared", by_stage(results, lambda stage: stage.shared_images)),
    ]
    note = (
        "Of the whole fleet. Up: payloads that were accepted. Down: files that orders named, each "
        "once per device and stage; models that are installed and messages are in the table above. "
        "An answer counts as the kind that its phase has, so weights hold what travels with them, "
        "such as logits. Means over seeds."
    )
    return table.from_columns("Bytes by kind", columns, note)


def has_shared(results: RunResults) -> bool:
    """Tell whether devices shared images."""
    return any(device.shared_images for device in results.first.devices)


def shared_table(results: RunResults) -> table.Table:
    """Return who shared how many images with the whole fleet, in the first seed."""
    devices = results.first.devices
    rows = [_shared_row(device) for device in devices if device.shared_images]
    images = sum(device.shared_images for device in devices)
    sent = sum(device.shared_bytes for device in devices)
    rows.append(("all", count(images), show(sent, "bytes"), count(_given(devices)), ""))
    head = ("device", "images shared", "bytes", "images that it was given", "share of them")
    note = (
        "Images that left devices, without labels, for every device of the fleet to distil on: "
        "their owners allow it (devices.policy.publish_images). First seed."
    )
    return table.Table("Images that devices shared", head, tuple(rows), note)


def _shared_row(device: DeviceMetrics) -> tuple[str, ...]:
    share = device.shared_images / device.samples if device.samples else None
    return (
        device.device,
        count(device.shared_images),
        show(device.shared_bytes, "bytes"),
        count(device.samples),
        show(share, "share"),
    )


def _given(devices: tuple[DeviceMetrics, ...]) -> int:
    return sum(device.samples for device in devices if device.shared_images)


def _kinds(results: RunResults) -> list[str]:
    found = {
        kind
        for seed in results.seeds.values()
        for stage in seed.stages
        for kind in (*stage.sent, *stage.received)
    }
    known = [kind for kind in _ORDER if kind in found]
    return [*known, *sorted(found.difference(_ORDER))]


def _of_kind(take: Take, kind: str) -> Callable[[StageMetrics], float]:
    return lambda stage: take(stage).get(kind, 0)


def _sent(stage: StageMetrics) -> dict[str, int]:
    return stage.sent


def _received(stage: StageMetrics) -> dict[str, int]:
    return stage.received


def _weights_alone(stage: StageMetrics) -> float:
    return stage.sent.get(WEIGHTS, 0) + stage.received.get(WEIGHTS, 0)


def _total(by_kind: dict[str, int]) -> int:
    return sum(by_kind.values())


def _times(both: Floats, alone: Floats) -> tuple[str, ...]:
    """Return the ratio of two means over seeds, stage by stage."""
    whole, part = both.mean(axis=0), alone.mean(axis=0)
    ratio = np.divide(whole, part, out=np.full_like(whole, np.nan), where=part > 0)
    return tuple(f"{value:.3f}" if np.isfinite(value) else "" for value in ratio)

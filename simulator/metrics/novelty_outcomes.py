"""Outcomes of novelty checks, of devices that notice new tasks by themselves.

A task begins on a device when it gets images of a stage's own classes, after the first stage. It is
noticed at once, if the device's first look of the stage is a transition, late, if a later one is,
or missed. Every other transition is a false alarm: of a device that got nothing new, or another one
in the same stage. Devices that were offline are not counted: their images wait for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.seed_metrics import Noticing, StageMetrics
from fleetledger.simulator.records import NoveltyCheckRecord

Verdict = Literal["at once", "late", "missed", "false alarm", ""]
"""The last: nothing to tell. A task that was missed stands at the device's first look of it."""


@dataclass(frozen=True)
class Judged:
    """A look, and what it was."""

    stage: int
    look: NoveltyCheckRecord
    begins: bool
    """Whether a task began on the device with this stage."""
    verdict: Verdict


def judged(stage: StageMetrics) -> tuple[Judged, ...]:
    """Return the looks of a stage, device by device; those of the first stage without verdicts."""
    by_device: dict[DeviceId, list[NoveltyCheckRecord]] = {}
    for look in stage.novelty_checks:
        by_device.setdefault(look.device, []).append(look)
    return tuple(
        Judged(stage.stage, look, device in stage.given_new, verdict)
        for device, looks in by_device.items()
        for look, verdict in zip(looks, _verdicts(stage, device, looks), strict=True)
    )


def _verdicts(
    stage: StageMetrics, device: DeviceId, looks: Sequence[NoveltyCheckRecord]
) -> Iterator[Verdict]:
    began, judging = device in stage.given_new, stage.stage > 1
    noticed = next((place for place, look in enumerate(looks) if look.transition), None)
    for place, look in enumerate(looks):
        if not judging:
            yield ""
        elif began and noticed == place:
            yield "late" if place else "at once"
        elif look.transition:
            yield "false alarm"
        else:
            yield "missed" if began and noticed is None and place == 0 else ""


def noticing(stages: Sequence[StageMetrics]) -> tuple[Noticing, ...]:
    """Return what each device noticed over all stages; empty where nobody looked.

    A device that got a task and did not look at all has missed it.
    """
    if not any(stage.novelty_checks for stage in stages):
        return ()
    counted: dict[DeviceId, Counter[Verdict]] = {}
    began: Counter[DeviceId] = Counter()
    for stage in stages:
        for device in stage.given_new:
            counted.setdefault(device, Counter())
            began[device] += stage.stage > 1
        for item in judged(stage):
            counted.setdefault(item.look.device, Counter())[item.verdict] += 1
    return tuple(_noticing(device, began[device], counted[device]) for device in _sorted(counted))


def _noticing(device: DeviceId, began: int, counted: Counter[Verdict]) -> Noticing:
    at_once, late = counted["at once"], counted["late"]
    return Noticing(
        device=device,
        began=began,
        at_once=at_once,
        late=late,
        missed=began - at_once - late,
        false_alarms=counted["false alarm"],
    )


def _sorted(devices: Iterable[DeviceId]) -> list[DeviceId]:
    """Return devices in the order of their numbers."""
    return sorted(devices, key=lambda device: (len(device), device))

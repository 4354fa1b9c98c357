"""How fast devices noticed new classes, how often they did not, and how often there were none."""

from __future__ import annotations

from collections.abc import Set
from typing import get_args

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.seed_metrics import Detection, TransitionKind
from fleetledger.simulator.records import StageRecord, TransitionRecord


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

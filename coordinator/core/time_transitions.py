"""What entries about time change: everything that waits moves with the calendar."""

from __future__ import annotations

from dataclasses import replace

from coordinator.core import entries
from coordinator.core.state import State
from schemas.values import DeviceId


def clock_corrected(
    state: State, body: entries.ClockCorrected, _device: DeviceId | None, _time_ns: int
) -> None:
    """Move the times that are compared with later ones; models keep theirs, for people."""
    state.corrections += 1
    by = body.by_ns
    for stage in state.stages.values():
        stage.opened_ns -= by
        if stage.last_answer_ns is not None:
            stage.last_answer_ns -= by
    for item in state.rounds.values():
        item.opened_ns -= by
        if item.ended_ns is not None:
            item.ended_ns -= by
    if state.weights is not None and state.weights.averaged_ns is not None:
        moved = state.weights.averaged_ns - by
        state.weights = replace(state.weights, averaged_ns=moved)
    if state.last_report_ns is not None:
        state.last_report_ns -= by


def devices_silent(
    state: State, body: entries.DevicesSilent, _device: DeviceId | None, _time_ns: int
) -> None:
    """Note who is silent."""
    for device in body.devices:
        state.devices[device].silent = True


def devices_heard(
    state: State, body: entries.DevicesHeard, _device: DeviceId | None, _time_ns: int
) -> None:
    """Note who is not silent any more."""
    for device in body.devices:
        state.devices[device].silent = False

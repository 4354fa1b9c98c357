"""Who is let into the fleet."""

from __future__ import annotations

from coordinator.core.decision import Decision, record, record_for
from coordinator.core.entry import OPERATOR
from coordinator.core.state import State
from coordinator.errors import CommandError
from coordinator.topics.devices.entries import DeviceAdmitted, DeviceProblem
from schemas.envelope import COORDINATOR, PROXY
from schemas.reports import Problem
from schemas.values import DeviceId


def admit(state: State, device: DeviceId) -> Decision:
    """Let a device take part; raise `CommandError` for a name that another program has."""
    if device in (COORDINATOR, PROXY):
        raise CommandError(f"device: {str(device)!r} is the {device}'s own name; rename the device")
    if device in state.devices.admitted:
        return Decision()
    return record(DeviceAdmitted(device=device), actor=OPERATOR)


def note_problem(device: DeviceId, problem: Problem) -> Decision:
    """Record what a device, or the proxy, says that its owner should mend."""
    return record_for(device, DeviceProblem(about=problem.about, text=problem.text))

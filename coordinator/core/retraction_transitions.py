"""How what was given leaves the sum again, and what is kept of means to retract answers by."""

from __future__ import annotations

from coordinator.core import entries
from coordinator.core.records import Part, Retracted
from coordinator.core.state import State
from schemas.values import DeviceId


def contribution_withdrawn(
    state: State, body: entries.ContributionWithdrawn, device: DeviceId | None, _time_ns: int
) -> None:
    """Take a part out of the sum, as its device asked."""
    assert device is not None
    if body.replaces is not None:
        state.counted.take_out(body.replaces)
    state.devices[device].parts[body.key] = Part(state.size, body.revision, None)


def contribution_retracted(
    state: State, body: entries.ContributionRetracted, _device: DeviceId | None, _time_ns: int
) -> None:
    """Take a part out of the sum, as the operator asked, and remember that it was."""
    state.counted.take_out(body.replaces)
    record = state.devices[body.device]
    record.parts[body.key] = Part(state.size, body.revision, None)
    record.retracted[body.key] = Retracted(state.size, body.payload, body.reason)


def descent_marked(
    state: State, body: entries.DescentMarked, _device: DeviceId | None, _time_ns: int
) -> None:
    """Remember from which mean on models descend from a device's retracted answers."""
    state.descent.marks.append((body.device, body.first_index))


def note_mean(state: State, body: entries.WeightsAveraged) -> None:
    """Note whose answers are in the mean of a round."""
    state.descent.means.append(state.size)
    inputs = set(body.inputs)
    for device, answer in state.rounds[body.number].answers.items():
        if answer.index in inputs:
            state.devices[device].averaged[body.number] = state.size


def parent_span(state: State, body: entries.BackboneImported) -> int | None:
    """Return the span of the network that a frozen model was made of; None for one from outside."""
    network = state.network
    successor = None if network is None else network.successor
    if network is None or successor is None:
        return None
    if (body.name, body.method) != (network.name, successor.method):
        return None
    return state.descent.spans[-1].index

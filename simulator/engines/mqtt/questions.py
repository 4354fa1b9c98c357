"""What is waited for, as questions to the view: each answers with what is still awaited, or None.

They raise `EngineError` for what waiting will not mend.
"""

from __future__ import annotations

from collections.abc import Collection

from schemas.values import ClassName, DeviceId
from simulator.engines.mqtt.view import FleetView
from simulator.errors import EngineError


def birth_awaited(view: FleetView, devices: Collection[DeviceId]) -> str | None:
    """Return which of these devices have not connected yet."""
    missing = listed(set(devices) - view.born)
    return f"the first word of {missing}" if missing else None


def opening_awaited(view: FleetView, stage: int, class_names: Collection[ClassName]) -> str | None:
    """Return whether stage number `stage` has to be opened yet, for exactly these classes."""
    opened = view.state.stages.by_number.get(stage)
    if opened is None:
        return f"the opening of stage {stage}"
    if set(opened.class_names) != set(class_names):
        raise EngineError(
            f"stage {stage}: was opened with {listed(opened.class_names)} instead of "
            f"{listed(class_names)}; somebody else operates this coordinator, or devices that are "
            "away hold the other classes"
        )
    return None


def closing_awaited(view: FleetView, stage: int) -> str | None:
    """Return whether stage number `stage` is still open."""
    return (
        None
        if view.state.stages.by_number[stage].closed_index is not None
        else "the stage's quiet time"
    )


def model_awaited(view: FleetView) -> str | None:
    """Return whether the desired model has to be solved from exactly what is held now yet."""
    model = view.desired_model
    if model is None or model.solved.inputs != view.state.contributions.inputs():
        return "a model solved from all contributions"
    return None


def activation_awaited(view: FleetView, devices: Collection[DeviceId]) -> str | None:
    """Return which of these devices do not run the desired model yet."""
    version = view.desired
    assert version is not None
    missing = listed(set(devices) - view.active(version))
    return f"model {version} on {missing}" if missing else None


def raise_what_failed(view: FleetView) -> None:
    """Raise `EngineError` if no model can be made, or a device refused it, or rounds stopped."""
    failed = view.state.models.failed
    if failed is not None and failed.inputs == view.state.contributions.inputs():
        raise EngineError(f"the coordinator could not make a model: {failed.reason}")
    if view.state.rounds.void.stopped is not None:
        raise EngineError(view.state.rounds.void.stopped.reason)
    for name in view.state.devices.admitted:
        device = view.state.models.of(name)
        if view.desired is not None and device.model_versions_seen.get(view.desired) in (
            "failed",
            "rolled_back",
        ):
            raise EngineError(
                f"{name}: model {view.desired} {device.model_state}: {device.model_reason}"
            )


def listed(names: Collection[ClassName] | Collection[DeviceId]) -> str:
    """Return the names in a row, sorted."""
    return ", ".join(sorted(names))

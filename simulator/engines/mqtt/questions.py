"""What is waited for, as questions to the view: each answers with what is still awaited, or None.

They raise `EngineError` for what waiting will not mend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.engines.mqtt.view import FleetView
from fleetledger.simulator.errors import EngineError


def model_awaited(view: FleetView) -> str | None:
    """Return whether the desired model has to be solved from exactly what is held now yet."""
    model = view.desired_model
    if model is None or not view.state.contributions.unchanged_since(model.solved.ledger_size):
        return "a model solved from all contributions"
    return None


def activation_awaited(view: FleetView, devices: Collection[DeviceId]) -> str | None:
    """Return which of these devices do not run the desired model yet."""
    version = view.desired
    assert version is not None
    missing = listed(set(devices) - view.active(version))
    return f"model {version} on {missing}" if missing else None


def evaluation_awaited(
    view: FleetView, questions: Mapping[DeviceId, Mapping[ClassName, int]]
) -> str | None:
    """Return which devices have not told yet how the desired model answers their questions.

    `questions` are a device's test images by class; it is asked about no others.
    """
    version = view.desired
    assert version is not None
    results = view.results(version)
    missing = {
        device
        for device, wanted in questions.items()
        if {name: result.total for name, result in results.get(device, {}).items()} != wanted
    }
    return f"accuracy of model {version} from {listed(missing)}" if missing else None


def raise_what_failed(view: FleetView) -> None:
    """Raise `EngineError` if no model can be made, or a device refused it, or rounds stopped."""
    failed, given = view.state.models.learning_failed, view.state.contributions
    if failed is not None and given.unchanged_since(failed.ledger_size or view.state.size):
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

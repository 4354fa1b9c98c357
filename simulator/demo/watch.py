"""What the demo waits for, as questions to the view: each answers with what is still awaited."""

from __future__ import annotations

from collections.abc import Collection

from coordinator.core.records import Model
from schemas.values import ClassName, DeviceId
from simulator.demo.plan import Plan
from simulator.demo.view import FleetView
from simulator.errors import DemoError


def fleet_awaited(view: FleetView, plan: Plan) -> str | None:
    """Return which agents have not connected yet, or None."""
    missing = _names(set(plan.devices) - view.born)
    return f"the first word of {missing}" if missing else None


def stage_awaited(view: FleetView, plan: Plan, stage: int) -> str | None:
    """Return what is missing until stage number `stage` is done, or None.

    Done is: opened and closed; every private image counted, none twice; a model solved from
    exactly the contributions that are held, and desired; every agent runs it and has evaluated
    it. Raises `DemoError` for what waiting will not mend.
    """
    _raise_what_failed(view)
    return (
        _stage_opened(view, plan, stage)
        or _images_counted(view, plan.counted(stage))
        or _stage_closed(view, stage)
        or _model_desired(view, plan.seen(stage))
        or _model_active(view, plan)
        or _model_evaluated(view, plan, stage)
    )


def _stage_opened(view: FleetView, plan: Plan, stage: int) -> str | None:
    opened = view.state.stages.get(stage)
    wanted = plan.stages[stage - 1].class_names
    if opened is None:
        return f"the opening of stage {stage}"
    if set(opened.class_names) != set(wanted):
        raise DemoError(
            f"stage {stage}: was opened with {_names(opened.class_names)} instead of "
            f"{_names(wanted)}; somebody else operates this coordinator"
        )
    return None


def _images_counted(view: FleetView, wanted: dict[ClassName, int]) -> str | None:
    counted = view.counted()
    if counted == wanted:
        return None
    for name, number in counted.items():
        if number > wanted.get(name, 0):
            raise DemoError(
                f"class {name}: {number} images are counted, but only {wanted.get(name, 0)} "
                "exist; some were counted twice"
            )
    devices = len({part.device for part in view.state.counted.values()})
    return (
        f"statistics: {sum(counted.values())} of {sum(wanted.values())} images in "
        f"{len(view.state.counted)} contributions of {devices} agents"
    )


def _stage_closed(view: FleetView, stage: int) -> str | None:
    return None if view.state.stages[stage].closed_index is not None else "the stage's quiet time"


def _model_desired(view: FleetView, seen: tuple[ClassName, ...]) -> str | None:
    model = desired_model(view)
    if model is None or model.solved.inputs != view.state.inputs():
        return "a model solved from all contributions"
    if set(model.solved.class_names) != set(seen):
        return f"a model of the classes {_names(seen)}"
    return None


def _model_active(view: FleetView, plan: Plan) -> str | None:
    version = view.desired
    assert version is not None
    running = view.active(version) & set(plan.devices)
    missing = _names(set(plan.devices) - running)
    return f"model {version} on {missing}" if missing else None


def _model_evaluated(view: FleetView, plan: Plan, stage: int) -> str | None:
    version = view.desired
    assert version is not None
    results = view.results(version)
    missing = set()
    for device in plan.devices:
        asked = {name: result.total for name, result in results.get(device, {}).items()}
        wanted = plan.questions(device, stage)
        if {name: asked.get(name, 0) for name in wanted} != wanted:
            missing.add(device)
    return f"accuracy of model {version} from {_names(missing)}" if missing else None


def desired_model(view: FleetView) -> Model | None:
    """Return the model that all devices are to run, if there is one yet."""
    return None if view.desired is None else view.state.models[view.desired]


def _raise_what_failed(view: FleetView) -> None:
    failed = view.state.failed
    if failed is not None and failed.inputs == view.state.inputs():
        raise DemoError(f"the coordinator could not make a model: {failed.reason}")
    for name, device in view.state.devices.items():
        if view.desired is not None and device.model_versions_seen.get(view.desired) in (
            "failed",
            "rolled_back",
        ):
            raise DemoError(
                f"{name}: model {view.desired} {device.model_state}: {device.model_reason}"
            )


def _names(names: Collection[ClassName] | Collection[DeviceId]) -> str:
    return ", ".join(sorted(names))

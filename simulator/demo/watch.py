"""What the demo waits for, as questions to the view: each answers with what is still awaited."""

from __future__ import annotations

from schemas.values import ClassName
from simulator.demo.plan import Plan
from simulator.engines.mqtt.questions import (
    activation_awaited,
    closing_awaited,
    listed,
    model_awaited,
    opening_awaited,
    raise_what_failed,
)
from simulator.engines.mqtt.view import FleetView
from simulator.errors import EngineError


def stage_awaited(view: FleetView, plan: Plan, stage: int) -> str | None:
    """Return what is missing until stage number `stage` is done, or None.

    Done is: opened and closed; every private image counted, none twice; a model solved from
    exactly the contributions that are held, and desired; every agent runs it and has evaluated
    it. Raises `EngineError` for what waiting will not mend.
    """
    raise_what_failed(view)
    return (
        opening_awaited(view, stage, plan.stages[stage - 1].class_names)
        or _images_counted(view, plan.counted(stage))
        or closing_awaited(view, stage)
        or model_awaited(view)
        or _classes_learned(view, plan.seen(stage))
        or activation_awaited(view, plan.devices)
        or _model_evaluated(view, plan, stage)
    )


def _images_counted(view: FleetView, wanted: dict[ClassName, int]) -> str | None:
    counted = view.counted()
    if counted == wanted:
        return None
    for name, number in counted.items():
        if number > wanted.get(name, 0):
            raise EngineError(
                f"class {name}: {number} images are counted, but only {wanted.get(name, 0)} "
                "exist; some were counted twice"
            )
    devices = len({part.device for part in view.state.contributions.counted.values()})
    return (
        f"statistics: {sum(counted.values())} of {sum(wanted.values())} images in "
        f"{len(view.state.contributions.counted)} contributions of {devices} agents"
    )


def _classes_learned(view: FleetView, seen: tuple[ClassName, ...]) -> str | None:
    model = view.desired_model
    assert model is not None
    learned = set(model.solved.class_names) == set(seen)
    return None if learned else f"a model of the classes {listed(seen)}"


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
    return f"accuracy of model {version} from {listed(missing)}" if missing else None

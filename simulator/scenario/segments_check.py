"""What a scenario needs whose network gives every pixel a class."""

from __future__ import annotations

from fleetledger.methods.registry import descriptor
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import SCENES
from fleetledger.simulator.scenario.trainer import JOINT


def check_segmenting(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` unless the method and the data set agree about masks.

    Raises `UnknownMethodError` for a method that is none.
    """
    method = scenario.method
    segments = (
        method.first_stage is None and method.name != JOINT and descriptor(method.name).segments
    )
    if scenario.data.with_masks and not segments:
        raise ScenarioError(
            f"{source}: data.set: {scenario.data.set!r} has pictures with masks, and "
            f"{method.name!r} gives a picture one class; take a method that gives every pixel one "
            "in all stages, or a data set without masks"
        )
    if segments and not scenario.data.with_masks:
        raise ScenarioError(
            f"{source}: data.set: {scenario.data.set!r}, but {method.name!r} learns a class for "
            f"every pixel from masks; give one of {', '.join(SCENES)}"
        )
    if scenario.stages.scenes != "overlapped" and not scenario.data.with_masks:
        raise ScenarioError(
            f"{source}: stages.scenes: {scenario.stages.scenes!r}, but {scenario.data.set!r} "
            "has no masks; leave it out"
        )
    if method.trunk is not None and not segments:
        raise ScenarioError(
            f"{source}: method.trunk: {method.trunk!r}, but {method.name!r} trains no network that "
            "gives every pixel a class; leave it out"
        )

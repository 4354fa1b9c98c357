"""What a scenario needs whose network gives every pixel a class."""

from __future__ import annotations

from pydantic import BaseModel

from fleetledger.learning.networks.registry import BODIES, OF_FEATURES
from fleetledger.methods.registry import descriptor
from fleetledger.simulator.datasets.loading import names_of
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import JOINT, trains_on_pictures

_ANY_PICTURE = (3, 32, 32)


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
            f"every pixel from masks; give one of {', '.join(names_of('scenes'))}"
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


def check_adapters(source: str, scenario: Scenario, settings: BaseModel) -> None:
    """Raise `ScenarioError` unless `[backbone]` names what nobody trains, where there is such.

    `settings` are those of the method that trains.
    """
    backbone, name = scenario.backbone, getattr(settings, "network", None)
    if not trains_on_pictures(scenario):
        return
    if name is None or not _has_frozen_part(name):
        if backbone.network != "pixels":
            raise ScenarioError(
                f"{source}: backbone.network: {backbone.network!r}, but the fleet trains its "
                "network from the first weights on; leave the section out (backbone.size may "
                "stay), or let a network be trained on its features: method.on_features = true"
            )
        return
    if scenario.method.name == JOINT:
        raise ScenarioError(
            f"{source}: method.settings.network: {name!r}, of which adapters alone are trained, "
            f"and {JOINT!r} trains a whole network; take another network"
        )
    if backbone.network != "torchvision" or backbone.name != name:
        raise ScenarioError(
            f"{source}: backbone.network: {backbone.network!r}, but of {name!r} adapters alone are "
            f"trained, and the rest is torchvision's; give network = 'torchvision', "
            f"name = {name!r} and its weights"
        )


def _has_frozen_part(name: str) -> bool:
    known = name in BODIES and name not in OF_FEATURES
    return known and bool(BODIES[name](_ANY_PICTURE).base_plan())

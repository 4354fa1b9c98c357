"""What a scenario needs whose fleet trains adapters alone in a large network."""

from __future__ import annotations

from pydantic import BaseModel

from fleetledger.learning.networks.registry import BODIES, OF_FEATURES
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import JOINT, trains_on_pictures

_ANY_PICTURE = (3, 32, 32)


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

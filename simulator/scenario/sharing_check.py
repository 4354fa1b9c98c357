"""What a scenario needs whose devices distil on images that all of them have."""

from __future__ import annotations

from fleetledger.methods.registry import descriptor
from fleetledger.methods.training_sides import AnyTrainingAssignment
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario

IMAGES = "images"


def check_sharing(
    source: str, scenario: Scenario, method: str, assignment: AnyTrainingAssignment
) -> None:
    """Raise `ScenarioError` where devices would refuse to share images, or public ones lack."""
    known, public = descriptor(method), scenario.method.public_images
    asks = [name for name in assignment.opening_phases if known.kind_of(name) == IMAGES]
    if asks and not scenario.devices.policy.publish_images:
        raise ScenarioError(
            f"{source}: devices.policy.publish_images: false, but {method!r} has devices share "
            "images with the whole fleet; set it to true, as their owners would have to, or let "
            "the method distil on others: method.settings.shared_set = 'public' or 'synthetic'"
        )
    wanted = assignment.needs_shared
    if wanted and public is None:
        raise ScenarioError(
            f"{source}: method.public_images: missing, but {method!r} with these settings "
            "distils on public images; give an .npz file with an array 'images'"
        )
    if public is not None and not wanted:
        raise ScenarioError(
            f"{source}: method.public_images: {public!r}, but {method!r} with these settings "
            "uses no public images; leave it out"
        )

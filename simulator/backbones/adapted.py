"""The part of a network that nobody trains, where the fleet trains adapters in it alone.

It is torchvision's network of the same name, which `[backbone]` names with its weights and size;
pictures are seen as these weights want them. Such is STSA's first stage with a vision transformer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from fleetledger.coordinator.models.first_files import base_tensors
from fleetledger.learning.networks.network import AnyNetwork
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.backbones.from_torchvision import recipe_of, weights_file
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import BackboneSettings

Arrays = dict[str, npt.NDArray[Any]]
_SEED = 0
"""Of the values that stand in for weights, where none are named."""


def frozen_part(settings: BackboneSettings, network: AnyNetwork) -> Arrays:
    """Return the tensors of `network` that nobody trains; none where all of it is trained.

    Without weights they are random, and the same in every run. Raises `BackboneError` where the
    weights are not there or nobody says whose they are, and `NetworkError` where they are not this
    network's.
    """
    plans, file = network.body.base_plan(), frozen_file(settings)
    if not plans:
        return {}
    if settings.network != "torchvision":
        raise BackboneError(
            f"backbone.network: {settings.network!r}, but of the network that is trained a part "
            "stays as it is; say in its `KnownNetwork` which of torchvision's it stands in (`base`)"
        )
    if file is None:
        return initial_arrays(plans, _SEED)
    return dict(base_tensors(network, settings.name or "", file))


def frozen_file(settings: BackboneSettings) -> Path | None:
    """Return the file of the weights that `[backbone]` names; None where they are random."""
    if settings.network != "torchvision" or settings.name is None or settings.weights is None:
        return None
    return weights_file(settings.name, settings.weights)


def adapted_sight(settings: BackboneSettings) -> Preprocessing:
    """Return how the network sees pictures: as the weights that `[backbone]` names want them.

    Raises `BackboneError` without torchvision or the weights.
    """
    assert settings.name is not None, "scenarios are checked for that"
    recipe = recipe_of(settings.name, frozen_file(settings))
    side = recipe.crop if settings.shape is None else settings.shape[0]
    return recipe.preprocessing(side)

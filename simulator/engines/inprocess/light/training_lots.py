"""Small networks of one's own train in stacks by default, in lots that the cohort alone decides.

Last bits of a stack may depend on who is in it. So a lot is so many places of the round's cohort,
whoever has samples, whatever memory is free and however many workers there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.methods.registry import training_device
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.virtual.training import TrainerPoolSettings, torch_device

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENTS = 16
"""Places of a lot."""
MOST_PRODUCTS = 1_000_000
"""Of a sample's forward pass: weights, those of convolutions once for each place of an input."""


@dataclass(frozen=True)
class TrainingLots:
    """Who trains with whom in a round."""

    places: Mapping[DeviceId, int]
    """Of the cohort."""

    def number(self, device: DeviceId) -> int:
        """Return the number of a device's lot."""
        return self.places[device] // AGENTS


def training_lots(task: RoundTask, trainers: TrainerPoolSettings) -> TrainingLots | None:
    """Return the lots of a round; None where devices train as `engine.training` says."""
    plain = trainers.steps == "eager" and not (trainers.bfloat16 or trainers.channels_last)
    if trainers.engine is not None or not plain or torch_device(trainers.device) != "cpu":
        return None
    own = training_device(task.assignment.method).read_assignment(task.assignment.settings)
    if not stacks_by_default(getattr(own, "network", None)):
        return None
    return TrainingLots({device: place for place, device in enumerate(task.opened.cohort)})


def stacks_by_default(network: object) -> bool:
    """Return whether it is a small network of one's own that torch can compute for many agents."""
    if not (isinstance(network, Network) and isinstance(network.body, ModuleBody)):
        return False
    body = network.body
    return products(body) <= MOST_PRODUCTS and body.stackable


def products(body: ModuleBody) -> int:
    """Return how many products a sample's pass takes at most, as far as shapes say it."""
    places = prod(body.shape[1:])
    shapes = [plan.shape for plan in body.plan()]
    return sum(prod(shape) * (places if len(shape) > 2 else 1) for shape in shapes)

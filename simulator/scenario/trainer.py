"""Who trains the network of a scenario, if somebody does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetledger.methods.registry import descriptor
from fleetledger.simulator.scenario.model import Scenario

JOINT = "joint"
"""No method of a fleet: what central training on all images comes to."""
JOINT_TRAINS_AS = "rounds"
"""The method whose local training and settings it has."""


@dataclass(frozen=True)
class Trainer:
    """A method that trains, and its settings."""

    method: str
    settings: Mapping[str, Any]

    def seeded(self, seed: int) -> dict[str, Any]:
        """Return the settings of a run; first weights are drawn by its seed unless they say so."""
        return {"seed": seed, **self.settings}


def trainer_of(scenario: Scenario) -> Trainer | None:
    """Return what trains the network; None where a frozen one is imported.

    Raises `UnknownMethodError` for a method that is none.
    """
    method, first = scenario.method, scenario.method.first_stage
    if method.name == JOINT:
        return Trainer(JOINT_TRAINS_AS, method.settings)
    if first is not None:
        return Trainer(first.name, first.settings)
    return Trainer(method.name, method.settings) if descriptor(method.name).trains else None


def learns_in_rounds(scenario: Scenario, stage: int) -> bool:
    """Whether devices train in a stage, so that a cohort is drawn for every round of it."""
    if scenario.method.first_stage is not None:
        return stage == 1
    return trainer_of(scenario) is not None


def trains_on_features(scenario: Scenario) -> bool:
    """Whether the scenario's network is trained on the features of its frozen `[backbone]`.

    Raises `UnknownMethodError` for a method that is none.
    """
    trainer = trainer_of(scenario)
    if trainer is None or scenario.method.first_stage is not None:
        return False
    asked = scenario.method.on_features
    return descriptor(trainer.method).on_features if asked is None else asked


def adapts(scenario: Scenario) -> bool:
    """Whether the network that is trained on pictures stands in `[backbone]`, with its weights.

    Then adapters are trained in it alone; `simulator.scenario.method_check` holds both together.
    """
    return trains_on_pictures(scenario) and scenario.backbone.network != "pixels"


def trains_on_pictures(scenario: Scenario) -> bool:
    """Whether the scenario has a network that is trained from pictures to scores."""
    return trainer_of(scenario) is not None and not trains_on_features(scenario)

"""What a scenario needs that ends with a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetledger.methods.registry import descriptor

if TYPE_CHECKING:
    from fleetledger.simulator.scenario.model import Scenario

_WITHOUT_FLEET = "joint"


def check_rollout(scenario: Scenario) -> None:
    """Check that there is a fleet of whole agents in memory that can hold pictures to compare on.

    Raises `ValueError` that says `field: value; way out`.
    """
    if scenario.rollout is None:
        return
    engine, name = scenario.engine, scenario.data.set
    if engine.kind != "inprocess":
        raise ValueError(
            f"rollout: beside engine.kind {engine.kind!r}; rollouts take days, which pass in no "
            "time with 'inprocess' alone"
        )
    if scenario.method.name == _WITHOUT_FLEET:
        raise ValueError(
            f"rollout: beside method.name {_WITHOUT_FLEET!r}, which has no devices; take a method "
            "of a fleet"
        )
    if scenario.data.with_masks or name in ("shakespeare", "grammar"):
        raise ValueError(
            f"rollout: with the data set {name!r}; candidates are made for pictures of one class "
            "each, so take another set"
        )
    if scenario.rollout.candidate.kind == "adapted" and descriptor(scenario.method.name).trains:
        raise ValueError(
            f"rollout.candidate.kind: 'adapted' beside method.name {scenario.method.name!r}, which "
            "trains a network in rounds itself; an adapter goes on top of a solved head, such as "
            "stsa's"
        )

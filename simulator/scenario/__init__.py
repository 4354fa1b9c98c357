"""What a run is: one TOML file, checked field by field, and the scenarios that ship."""

from fleetledger.simulator.scenario.model import Scenario

__all__ = ["Scenario"]

"""A scenario back into TOML, every field spelled out, as `<run>/scenario.toml` keeps it.

The law: `parse_scenario(..., scenario_to_toml(scenario), ...)` gives the scenario again.
"""

from __future__ import annotations

from typing import Any

import tomli_w

from fleetledger.coordinator.topics.rollouts.plan import plan_content
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import ONLY_WITHOUT_LISTS


def scenario_to_toml(scenario: Scenario) -> str:
    """Return the scenario as TOML; fields that are left out (None) stay so."""
    return tomli_w.dumps(scenario_content(scenario), multiline_strings=True)


def scenario_content(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario's fields as a file of it has them, nested by section."""
    content: dict[str, Any] = scenario.model_dump(mode="json", exclude_none=True)
    if scenario.rollout is not None:
        content["rollout"]["plan"] = plan_content(scenario.rollout.plan)
    if scenario.stages.lists:  # they say what these fields say, and may not stand beside them
        for field in ONLY_WITHOUT_LISTS:
            content["stages"].pop(field, None)
    return content

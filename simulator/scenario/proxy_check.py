"""What a scenario needs where devices send gradients to a proxy."""

from __future__ import annotations

from pydantic import BaseModel

from fleetledger.methods.registry import descriptor
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.model import Scenario

_WITHOUT = "let it do without: old_model = 'random' in its settings"


def check_proxy(source: str, scenario: Scenario, method: str, settings: BaseModel) -> None:
    """Raise `ScenarioError` where a proxy is needed that nobody runs, or that is sent nothing."""
    if not (descriptor(method).proxy and getattr(settings, "has_proxy", False)):
        return
    if not scenario.devices.policy.publish_gradients:
        raise ScenarioError(
            f"{source}: devices.policy.publish_gradients: false, but {method!r} has devices send "
            f"gradients to a proxy; set it to true, or {_WITHOUT}"
        )

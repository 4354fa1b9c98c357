"""What a scenario needs where devices send gradients to a proxy."""

from __future__ import annotations

from pydantic import BaseModel

from methods.registry import card
from simulator.errors import ScenarioError
from simulator.scenario.model import Scenario

_WITHOUT = "method.settings.old_model = 'random' needs none"


def check_proxy(source: str, scenario: Scenario, method: str, settings: BaseModel) -> None:
    """Raise `ScenarioError` where a method with these settings has a proxy that nobody runs."""
    if not (card(method).proxy and getattr(settings, "has_proxy", False)):
        return
    raise ScenarioError(
        f"{source}: method.name: {method!r} with these settings waits for a proxy, and the "
        f"simulator does not run one; {_WITHOUT}"
    )

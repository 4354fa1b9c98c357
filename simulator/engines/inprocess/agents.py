"""The agents of a scenario: by which rules they decide, and how their owners set them up."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.settings import (
    AgentDataSettings,
    AgentSettings,
    AgentTrainingSettings,
)
from fleetledger.device_agent.uncertainty import detection_of
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.home import FLEET, SCAN_SECONDS
from fleetledger.simulator.scenario.model import Scenario

_NEVER_SECONDS = 1e9
"""An assignment makes a device look at its data at once, so that it need not look on its own."""
_SELDOM_SECONDS = 20.0
"""Before something is sent again: the virtual network loses nothing."""


def rules_of(scenario: Scenario) -> AgentRules:
    """Return the rules of every agent."""
    looks = scenario.stages.opened_by == "reports"
    return AgentRules(
        scan_seconds=SCAN_SECONDS if looks else _NEVER_SECONDS,
        heartbeat_seconds=_NEVER_SECONDS,
        birth_shortest=_SELDOM_SECONDS,
        message_shortest=_SELDOM_SECONDS,
        detection=detection_of(scenario.detection),
        policy=scenario.devices.policy,
    )


def settings_of(scenario: Scenario) -> AgentSettings:
    """Return the settings of every agent, but for its name."""
    return AgentSettings(
        device=DeviceId("device"),
        fleet=FLEET,
        data=AgentDataSettings(folder=Path("data")),
        detection=scenario.detection,
        policy=scenario.devices.policy,
        training=AgentTrainingSettings(exemplars=scenario.devices.exemplars),
    )

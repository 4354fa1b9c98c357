"""Homes of the demo's coordinator and agents: what it sets, and the test images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator.core.rules import ModelRules, StageRules
from coordinator.serving.inviting import invite
from coordinator.settings import CoordinatorSettings, MethodSection, SecuritySettings
from device_agent.enrolling import enrol
from device_agent.settings import AgentDataSettings, AgentSettings, ModelSettings
from schemas.values import DeviceId
from simulator.demo.material import Material
from simulator.demo.plan import Plan
from simulator.demo.run_folder import RunFolder, write_images
from simulator.demo.settings import REPORTS_SETTLE_SECONDS, DemoSettings
from simulator.engines.mqtt.homes import (
    admit,
    agent_broker,
    coordinator_broker,
    import_backbone,
    write_agent,
    write_coordinator,
)
from transport.brokers import Broker

SCAN_SECONDS = 0.5
TOKEN_HOURS = 1.0
QUIET_SECONDS = 0.5
SOLVE_EVERY_SECONDS = 5.0
"""Longer than a stage usually takes, so that few models are solved before all have answered."""


def make_coordinator(
    folder: RunFolder, broker: Broker, settings: DemoSettings, material: Material
) -> None:
    """Write the coordinator's settings, admit the devices and import the backbone."""
    home = folder.coordinator
    write_coordinator(home, broker, coordinator_settings(broker, settings))
    admit(home, settings.devices)
    import_backbone(home, material.backbone_name, material.backbone, material.preprocessing)


def coordinator_settings(broker: Broker, settings: DemoSettings) -> CoordinatorSettings:
    """Return settings under which a stage closes soon after every agent has answered."""
    return CoordinatorSettings(
        fleet=settings.fleet,
        broker=coordinator_broker(broker),
        method=MethodSection(name="stsa", settings=method_settings(settings)),
        stages=StageRules(
            quorum=1.0,
            quiet_seconds=QUIET_SECONDS,
            deadline_seconds=settings.patience.stage,
            open=settings.opening,
            reports_quorum=1.0,
            settle_seconds=REPORTS_SETTLE_SECONDS,
        ),
        models=ModelRules(automatic=True, solve_every_seconds=SOLVE_EVERY_SECONDS),
        security=SecuritySettings(require_keys=True),
    )


def method_settings(settings: DemoSettings) -> dict[str, Any]:
    """Return what is set about STSA; all else has its default."""
    return {"form": settings.form, "map_width": settings.map_width, "map_seed": settings.seed}


def make_agent(
    folder: RunFolder, broker: Broker, device: DeviceId, plan: Plan, settings: DemoSettings
) -> None:
    """Write one agent's settings, its secret, its key, its test images and an empty data folder.

    The device must be admitted.
    """
    write_agent(folder.agent(device), broker, agent_settings(broker, device, settings))
    enrol(folder.agent(device), invite(folder.coordinator, device, TOKEN_HOURS).text)
    write_images(folder.test_images(device), plan.test[device], "test")


def agent_settings(broker: Broker, device: DeviceId, settings: DemoSettings) -> AgentSettings:
    """Return an agent's settings."""
    return AgentSettings(
        device=device,
        fleet=settings.fleet,
        broker=agent_broker(broker),
        data=AgentDataSettings(
            folder=Path("data"), evaluation_folder=Path("test"), scan_seconds=SCAN_SECONDS
        ),
        # The models are those of this machine's own coordinator, and five agents share it.
        model=ModelSettings(providers=("CPUExecutionProvider",), trial=False),
    )

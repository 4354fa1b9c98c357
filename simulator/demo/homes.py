"""Homes of the coordinator and the agents: settings files, secrets, the test images."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from coordinator.backbones import prepare_backbone
from coordinator.core.commands import AdmitDevice, Command, ImportBackbone
from coordinator.core.rules import ModelRules, StageRules
from coordinator.engine import carry_out_waiting
from coordinator.operator import send
from coordinator.settings import BrokerSettings, CoordinatorSettings, MethodSettings, write_new
from schemas.values import DeviceId
from simulator.demo.material import Material
from simulator.demo.plan import Plan
from simulator.demo.run_folder import RunFolder, write_images
from simulator.demo.settings import REPORTS_SETTLE_SECONDS, DemoSettings
from transport.brokers import Broker

PASSWORD_FILE = "broker.password"  # noqa: S105 - a file name
SCAN_SECONDS = 0.5
QUIET_SECONDS = 0.5
SOLVE_EVERY_SECONDS = 5.0
"""Longer than a stage usually takes, so that few models are solved before all have answered."""


def make_coordinator(
    folder: RunFolder, broker: Broker, settings: DemoSettings, material: Material
) -> None:
    """Write the coordinator's settings, admit the devices and import the backbone."""
    home = folder.coordinator
    write_password(home, broker, "coordinator")
    write_new(home, coordinator_settings(broker, settings))
    for device in settings.devices:
        _carry_out(home, AdmitDevice(device=device))
    with tempfile.TemporaryDirectory() as scratch:
        backbone = Path(scratch, f"{material.backbone_name}.onnx")
        backbone.write_bytes(material.backbone)
        preprocessing = backbone.with_suffix(".json")
        preprocessing.write_text(material.preprocessing.model_dump_json())
        imported = prepare_backbone(home, backbone, preprocessing)
    _carry_out(home, ImportBackbone(backbone=imported))


def coordinator_settings(broker: Broker, settings: DemoSettings) -> CoordinatorSettings:
    """Return settings under which a stage closes soon after every agent has answered."""
    return CoordinatorSettings(
        fleet=settings.fleet,
        broker=BrokerSettings(
            host=broker.host, port=broker.port, password_file=Path(PASSWORD_FILE)
        ),
        method=MethodSettings(name="stsa", settings=method_settings(settings)),
        stages=StageRules(
            quorum=1.0,
            quiet_seconds=QUIET_SECONDS,
            deadline_seconds=settings.patience.stage,
            open=settings.opening,
            reports_quorum=1.0,
            settle_seconds=REPORTS_SETTLE_SECONDS,
        ),
        models=ModelRules(automatic=True, solve_every_seconds=SOLVE_EVERY_SECONDS),
    )


def method_settings(settings: DemoSettings) -> dict[str, Any]:
    """Return what is set about STSA; all else has its default."""
    return {"form": settings.form, "map_width": settings.map_width, "map_seed": settings.seed}


def make_agent(
    folder: RunFolder, broker: Broker, device: DeviceId, plan: Plan, settings: DemoSettings
) -> None:
    """Write one agent's settings, its secret, its test images and an empty data folder."""
    home = folder.agent(device)
    write_password(home, broker, device)
    (home / "agent.toml").write_text(agent_settings(broker, device, settings), encoding="utf-8")
    folder.private_images(device).mkdir()
    write_images(folder.test_images(device), plan.test[device], "test")


def agent_settings(broker: Broker, device: DeviceId, settings: DemoSettings) -> str:
    """Return the text of an agent's settings file."""
    return f"""\
device = "{device}"
fleet = "{settings.fleet}"

[broker]
host = "{broker.host}"
port = {broker.port}
password_file = "{PASSWORD_FILE}"

[data]
folder = "data"
evaluation_folder = "test"
scan_seconds = {SCAN_SECONDS}

[model]
providers = ["CPUExecutionProvider"]
"""


def write_password(home: Path, broker: Broker, user: str) -> None:
    """Write a user's broker secret into its home, readable by the owner alone."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / PASSWORD_FILE
    path.touch(mode=0o600)
    path.write_text(broker.credentials(user)[1] + "\n", encoding="utf-8")


def _carry_out(home: Path, command: Command) -> None:
    send(home, command, carry_out_here=lambda: carry_out_waiting(home))

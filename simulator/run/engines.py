"""The engine that a scenario asks for, imported when it is wanted."""

from __future__ import annotations

from pathlib import Path

from device_agent.memory import quick_allocation
from simulator.engines.interface import Engine, Prepared, Watch
from simulator.scenario.checks import has_light_agents
from simulator.scenario.trainer import JOINT


def make_engine(prepared: Prepared, folder: Path, watch: Watch) -> Engine:
    """Return the engine of the scenario on a seed's folder, new or left by a former process."""
    if prepared.scenario.method.name == JOINT:
        from simulator.engines.joint.engine import JointEngine  # noqa: PLC0415 - only where wanted

        return JointEngine(prepared, folder, watch)
    if prepared.scenario.engine.kind == "mqtt":
        from simulator.engines.mqtt.engine import MqttEngine  # noqa: PLC0415

        return MqttEngine(prepared, folder, watch)
    if has_light_agents(prepared.scenario):
        from simulator.engines.inprocess.light.engine import LightEngine  # noqa: PLC0415

        quick_allocation()
        return LightEngine(prepared, folder, watch)
    from simulator.engines.inprocess.engine import InProcessEngine  # noqa: PLC0415

    quick_allocation()

    return InProcessEngine(prepared, folder, watch)

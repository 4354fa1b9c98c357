"""The engine that a scenario asks for, imported when it is wanted."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.home.memory import quick_allocation
from fleetledger.simulator.engines.interface import Engine, Prepared, Watch
from fleetledger.simulator.scenario.model import asked_of_time
from fleetledger.simulator.scenario.trainer import JOINT


def make_engine(prepared: Prepared, folder: Path, watch: Watch) -> Engine:
    """Return the engine of the scenario on a seed's folder, new or left by a former process."""
    if prepared.scenario.method.name == JOINT:
        from fleetledger.simulator.engines.joint.engine import JointEngine  # noqa: PLC0415 - only where wanted

        return JointEngine(prepared, folder, watch)
    if prepared.scenario.engine.kind == "mqtt":
        from fleetledger.simulator.engines.mqtt.engine import MqttEngine  # noqa: PLC0415

        return MqttEngine(prepared, folder, watch)
    quick_allocation()
    if not asked_of_time(prepared.scenario):
        from fleetledger.simulator.engines.inprocess.light.engine import LightEngine  # noqa: PLC0415

        return LightEngine(prepared, folder, watch)
    from fleetledger.simulator.engines.inprocess.engine import InProcessEngine  # noqa: PLC0415

    return InProcessEngine(prepared, folder, watch)

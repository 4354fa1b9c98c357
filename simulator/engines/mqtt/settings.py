"""What the engine sets at the coordinator and the agents, from the scenario."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.rules import ModelRules
from fleetledger.coordinator.settings import CoordinatorSettings, SecuritySettings
from fleetledger.device_agent import settings
from fleetledger.device_agent.kinds import SampleKind
from fleetledger.runtime.onnx_runtime import onnx_runtime
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.simulator.engines.mqtt.homes import agent_broker, coordinator_broker
from fleetledger.simulator.engines.rounds import coordinator_rules
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.transport.brokers import Broker

FLEET = FleetId("simulated")
TEST_FOLDER = Path("test")
QUIET_SECONDS = 0.5
"""Without a further answer, once all devices have answered: they do so at the same time."""
SOLVE_EVERY_SECONDS = 15.0
"""Longer than a stage usually takes, so that few models are solved before all have answered."""
REPORTS_SETTLE_SECONDS = 5.0
"""Without a further report, before a stage opens by itself; new folders come within one scan."""
SCAN_SECONDS = 0.5
SELDOM_SECONDS = 3600.0
"""Between scans of agents that need not notice what is new between stages: they look when one is
opened. Whatever the machine is busy with, they find all of a delivery and count it in its stage."""
_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def coordinator_settings(scenario: Scenario, seed: int, broker: Broker) -> CoordinatorSettings:
    """Return the coordinator's settings; `seed` is that of the run."""
    rules = coordinator_rules(
        scenario, seed, quiet_seconds=QUIET_SECONDS, settle_seconds=REPORTS_SETTLE_SECONDS
    )
    # Its rounds are measured from outside, at another pace than they come.
    rules["rounds"] = rules["rounds"].model_copy(update={"keep_weights": "all"})
    return CoordinatorSettings(
        fleet=FLEET,
        broker=coordinator_broker(broker),
        **rules,
        models=ModelRules(automatic=True, solve_every_seconds=SOLVE_EVERY_SECONDS),
        security=SecuritySettings(require_keys=scenario.engine.keys),
    )


def agent_settings(
    scenario: Scenario, broker: Broker, device: DeviceId, kind: SampleKind | None = None
) -> settings.AgentSettings:
    """Return an agent's settings; `kind` is that of its samples, left out the data set's."""
    return settings.AgentSettings(
        device=device,
        fleet=FLEET,
        broker=agent_broker(broker),
        data=settings.AgentDataSettings(
            folder=Path("data"),
            evaluation_folder=TEST_FOLDER if scenario.evaluation.on_devices else None,
            scan_seconds=SCAN_SECONDS if scenario.stages.by_reports else SELDOM_SECONDS,
            longest_pause_seconds=0,
            samples=(kind or scenario.data.known.kind).name,
        ),
        # The models are those of this machine's own coordinator, and all agents share it.
        model=settings.ModelSettings(providers=_providers(scenario), trial=False),
        detection=scenario.detection,
        training=settings.AgentTrainingSettings(
            exemplars=scenario.devices.exemplars,
            device=scenario.engine.device,
            bfloat16=scenario.engine.bfloat16,
        ),
        policy=scenario.devices.policy,
    )


def lacks_cuda(scenario: Scenario) -> bool:
    """Whether the scenario asks for a GPU that ONNX Runtime does not have here."""
    return scenario.engine.device == "cuda" and _CUDA not in _available_providers()


def _providers(scenario: Scenario) -> tuple[str, ...]:
    """Return the CPU, unless the scenario asks for a GPU: agents that share one gain little."""
    if scenario.engine.device == "cuda" and not lacks_cuda(scenario):
        return (_CUDA, _CPU)
    return (_CPU,)


def _available_providers() -> list[str]:
    available: list[str] = onnx_runtime().get_available_providers()
    return available

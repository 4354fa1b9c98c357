"""What a scenario sets for the coordinator, in its home, and for the agents."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.rules import AdapterRules, ModelRules
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import FILE_NAME, ledger_path
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.models.uncertainty import detection_of
from fleetledger.device_agent.settings import (
    AgentDataSettings,
    AgentSettings,
    AgentTrainingSettings,
)
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.simulator.engines.rounds import coordinator_rules
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.virtual.clock import BEGINNING_NS
from fleetledger.simulator.virtual.seeds import install_key

_NEVER_SECONDS = 1e9
"""An assignment makes a device look at its data at once, so that it need not look on its own."""
_SELDOM_SECONDS = 20.0
"""Before something is sent again: the virtual network loses nothing."""

FLEET = FleetId("simulation")
QUIET_SECONDS = 5.0
"""Longer than the pause after which a device offers again what the coordinator had no room for."""
SCAN_SECONDS = 30.0
"""How often devices look for new data that nobody has asked for."""
SETTLE_SECONDS = 2 * SCAN_SECONDS
"""Without a further report; by then every device has looked."""


def make_home(home: Path, scenario: Scenario, seed: int) -> None:
    """Write the coordinator's settings and its key, unless a former run did."""
    if not (home / FILE_NAME).exists():
        install_key(home, FLEET, seed)
        write_new(home, coordinator_settings(scenario, seed))


def coordinator_settings(scenario: Scenario, seed: int) -> CoordinatorSettings:
    """Return the settings of a coordinator that makes one model per stage."""
    rules = coordinator_rules(
        scenario, seed, quiet_seconds=QUIET_SECONDS, settle_seconds=SETTLE_SECONDS
    )
    return CoordinatorSettings(
        fleet=FLEET,
        **rules,
        adapter=_adapter_rules(scenario),
        # Only closing a stage solves: what comes later counts with the next stage's model.
        models=ModelRules(solve_every_seconds=1e9),
    )


def _adapter_rules(scenario: Scenario) -> AdapterRules:
    rollout = scenario.rollout
    if rollout is None or rollout.candidate.kind != "adapted":
        return AdapterRules()
    candidate = rollout.candidate
    return AdapterRules(held_out=candidate.judges, settings=candidate.settings, plan=rollout.plan)


def last_moment(home: Path) -> tuple[int, int]:
    """Return the ledger's size and the time of its last entry, from which the clock goes on."""
    if not ledger_path(home).exists():
        return 0, BEGINNING_NS
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        size = ledger.size
        return size, ledger.entry(size - 1).time_ns if size else BEGINNING_NS


def rules_of(scenario: Scenario) -> AgentRules:
    """Return the rules of every agent."""
    return AgentRules(
        scan_seconds=SCAN_SECONDS if scenario.stages.by_reports else _NEVER_SECONDS,
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

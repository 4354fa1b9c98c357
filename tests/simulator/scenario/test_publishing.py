"""Scenarios whose devices publish features: as their owners allow, in both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.home.home import AgentHome
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.mqtt.homes import settings_text
from fleetledger.simulator.engines.mqtt.settings import agent_settings
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.transport.brokers import MosquittoBroker
from tests.simulator.engines.mqtt.small import small_scenario


def test_devices_publish_nothing_unless_the_scenario_says_that_their_owners_allow_it():
    assert not load_scenario("digits").devices.policy.publish_features
    assert load_scenario("digits-pooled").devices.policy.publish_features


def test_a_method_that_publishes_features_needs_devices_that_may():
    with pytest.raises(
        ScenarioError, match=r"devices\.policy\.publish_features: false, but 'pooled' .* to true"
    ):
        load_scenario("digits-pooled", ["devices.policy.publish_features=false"])


@pytest.mark.parametrize("allowed", [True, False])
def test_agents_on_a_real_broker_read_the_policy_from_their_settings(tmp_path: Path, allowed: bool):
    scenario = small_scenario(devices={"count": 3, "policy": {"publish_features": allowed}})
    device = DeviceId("device-1")
    broker = MosquittoBroker(tmp_path / "broker", [device], port=18830)  # not started
    written = settings_text(agent_settings(scenario, broker, device))
    (tmp_path / "agent.toml").write_text(written, encoding="utf-8")
    assert AgentHome.open(tmp_path).settings.policy.publish_features is allowed

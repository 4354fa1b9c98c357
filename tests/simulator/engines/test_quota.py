"""Simulated coordinators take answers as large as they come, one after another."""

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import IntakeRules
from fleetledger.coordinator.program.quotas import Quotas
from fleetledger.coordinator.settings import load, write_new
from fleetledger.schemas.topics import DeviceTopic
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess import home
from fleetledger.simulator.engines.mqtt import settings
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.transport.brokers import MosquittoBroker

DEVICE = DeviceId("device-1")
RESNET_101 = 183 << 20
"""Bytes of an answer of DeepLab-v3 on it."""


def takes_another(rules: IntakeRules) -> bool:
    """Whether the next payload may come right at the end of so large an answer."""
    quotas, spoken = Quotas(rules), DeviceTopic("up", DEVICE, "msg")
    quotas.charge(DEVICE, RESNET_101, now=1.0)
    return quotas.may_offer(spoken, now=1.0)


@pytest.mark.parametrize("engine", ["inprocess", "mqtt"])
def test_a_device_may_answer_again_right_after_an_answer_of_any_size(engine: str, tmp_path: Path):
    scenario = Scenario(title="large answers")
    if engine == "inprocess":
        set_up = home.coordinator_settings(scenario, 1)
    else:
        broker = MosquittoBroker(tmp_path, [DEVICE], port=18830)
        set_up = settings.coordinator_settings(scenario, 1, broker)
    write_new(tmp_path / "coordinator", set_up)
    assert takes_another(load(tmp_path / "coordinator").intake)
    assert not takes_another(IntakeRules())

"""Simulated coordinators take answers as large as they come, and what a device says after them."""

from pathlib import Path

import pytest

from coordinator.core.rules import IntakeRules
from coordinator.quotas import Quotas
from coordinator.settings import load, write_new
from schemas.topics import DeviceTopic
from schemas.values import DeviceId
from simulator.engines.inprocess import home
from simulator.engines.mqtt import settings
from simulator.scenario.model import Scenario
from transport.brokers import MosquittoBroker

DEVICE = DeviceId("device-1")
RESNET_101 = 183 << 20
"""Bytes of an answer of DeepLab-v3 on it."""


def hears_after_an_answer(rules: IntakeRules) -> bool:
    """Whether a word at the end of so large an answer is taken in."""
    quotas, spoken = Quotas(rules), DeviceTopic("up", DEVICE, "msg")
    quotas.charge(DEVICE, RESNET_101, now=1.0)
    return quotas.takes(spoken, 200, now=1.0)


@pytest.mark.parametrize("engine", ["inprocess", "mqtt"])
def test_a_device_is_heard_right_after_an_answer_of_any_size(engine: str, tmp_path: Path):
    scenario = Scenario(title="large answers")
    if engine == "inprocess":
        set_up = home.coordinator_settings(scenario, 1)
    else:
        broker = MosquittoBroker(tmp_path, [DEVICE], port=18830)
        set_up = settings.coordinator_settings(scenario, 1, broker)
    write_new(tmp_path / "coordinator", set_up)
    assert hears_after_an_answer(load(tmp_path / "coordinator").intake)
    assert not hears_after_an_answer(IntakeRules())

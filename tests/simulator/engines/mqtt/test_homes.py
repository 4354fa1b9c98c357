"""What the engine writes into the homes, read back by those who live there."""

from pathlib import Path

import pytest

from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.settings import (
    AgentBrokerSettings,
    AgentDataSettings,
    AgentDetectionSettings,
    AgentSettings,
    ModelSettings,
)
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.simulator.engines.mqtt import settings
from fleetledger.simulator.engines.mqtt.homes import settings_text
from fleetledger.simulator.engines.mqtt.settings import (
    SCAN_SECONDS,
    SELDOM_SECONDS,
    agent_settings,
    coordinator_settings,
    lacks_cuda,
)
from fleetledger.transport.brokers import MosquittoBroker
from tests.simulator.engines.mqtt.small import small_scenario

FIRST = DeviceId("device-1")


@pytest.fixture
def broker(tmp_path: Path) -> MosquittoBroker:
    """Not started: only its address is asked for."""
    return MosquittoBroker(tmp_path / "broker", [FIRST], port=18830)


def test_an_agent_reads_the_settings_that_were_written(tmp_path: Path):
    written = AgentSettings(
        device=FIRST,
        fleet=FleetId("simulated"),
        contribution_form="exact",
        broker=AgentBrokerSettings(host="::1", port=99, password_file=Path('a "secret"')),
        data=AgentDataSettings(folder=Path("bilder/ä"), scan_seconds=0.25),
        model=ModelSettings(providers=("CUDAExecutionProvider", "CPUExecutionProvider"), threads=2),
        detection=AgentDetectionSettings(mode="fixed-rise", rise_nats=0.7),
    )
    (tmp_path / "agent.toml").write_text(settings_text(written), encoding="utf-8")
    assert AgentHome.open(tmp_path).settings == written


def test_agents_look_seldom_unless_they_are_to_report_what_is_new(broker: MosquittoBroker):
    told = agent_settings(small_scenario(), broker, FIRST)
    reporting = small_scenario(stages={"classes": 4, "count": 2, "opened_by": "reports"})
    assert told.data.scan_seconds == SELDOM_SECONDS
    assert agent_settings(reporting, broker, FIRST).data.scan_seconds == SCAN_SECONDS
    assert coordinator_settings(small_scenario(), 1, broker).stages.open == "operator"
    assert coordinator_settings(reporting, 1, broker).stages.open == "reports"


def test_what_the_scenario_says_of_method_quorum_and_detection_is_set(broker: MosquittoBroker):
    scenario = small_scenario(
        "estimated",
        engine={"kind": "mqtt", "quorum": 0.75, "deadline_seconds": 90.0},
        detection={"mode": "baseline", "min_images": 20},
    )
    set_up = coordinator_settings(scenario, 1, broker)
    assert (set_up.stages.quorum, set_up.stages.deadline_seconds) == (0.75, 90.0)
    assert (set_up.method.name, set_up.method.settings["form"]) == ("stsa", "estimated")
    assert agent_settings(scenario, broker, FIRST).detection == scenario.detection


def test_keys_and_test_images_are_set_where_the_scenario_asks_for_them(broker: MosquittoBroker):
    plain = small_scenario(engine={"kind": "mqtt"})
    asking = small_scenario(engine={"kind": "mqtt", "keys": True}, evaluation={"on_devices": True})
    assert not coordinator_settings(plain, 1, broker).security.require_keys
    assert coordinator_settings(asking, 1, broker).security.require_keys
    assert agent_settings(plain, broker, FIRST).data.evaluation_folder is None
    assert agent_settings(asking, broker, FIRST).data.evaluation_folder == Path("test")


@pytest.mark.parametrize(
    ("asked", "available", "provider"),
    [
        ("cpu", True, "CPUExecutionProvider"),
        ("auto", True, "CPUExecutionProvider"),
        ("cuda", True, "CUDAExecutionProvider"),
        ("cuda", False, "CPUExecutionProvider"),
    ],
)
def test_agents_use_a_gpu_only_where_it_is_asked_for_and_there(
    broker: MosquittoBroker, monkeypatch, asked: str, available: bool, provider: str
):
    found = ["CUDAExecutionProvider"] * available + ["CPUExecutionProvider"]
    monkeypatch.setattr(settings, "_available_providers", lambda: found)
    scenario = small_scenario(engine={"kind": "mqtt", "device": asked})
    assert agent_settings(scenario, broker, FIRST).model.providers[0] == provider
    assert lacks_cuda(scenario) == (asked == "cuda" and not available)

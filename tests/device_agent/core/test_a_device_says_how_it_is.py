"""Health is said after the welcome, every so often."""

from pathlib import Path

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import SendHealth
from tests.device_agent.core.driving import Driven


def telling(tmp_path: Path) -> Driven:
    return Driven(tmp_path / "telling.db", health_seconds=60.0)


def test_health_is_said_after_the_welcome_and_then_every_minute(tmp_path: Path) -> None:
    agent = telling(tmp_path)
    agent.give(inputs.AgentConnected())
    agent.wait(100)
    assert agent.take(SendHealth) == []
    agent.connect()
    assert len(agent.take(SendHealth)) == 1
    agent.wait(59)
    assert agent.take(SendHealth) == []
    agent.wait(1)
    assert len(agent.take(SendHealth)) == 1


def test_nothing_is_said_of_health_where_the_owner_turned_it_off(agent: Driven) -> None:
    agent.connect()
    agent.wait(1000)
    assert agent.take(SendHealth) == []

"""A broker in memory, a coordinator on a script, an agent's home, and an agent that runs there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.device_agent import models
from tests.device_agent.scripted import RunningAgent, ScriptedCoordinator, settle
from transport.memory import InMemoryBroker


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(broker: InMemoryBroker) -> Iterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator.in_memory(broker)
    yield scripted
    scripted.stop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An agent's home with five pictures of two classes, changed long ago."""
    folder = tmp_path / "home"
    models.put_pictures(folder / "data", "dark", 1, 2, 3)
    models.put_pictures(folder / "data", "light", 4, 5)
    models.put_pictures(folder / "test", "dark", 11, 12, 13)
    models.put_pictures(folder / "test", "light", 14)
    settle(folder / "data")
    return folder


@pytest.fixture
def running(broker: InMemoryBroker, home: Path) -> Iterator[RunningAgent]:
    agent = RunningAgent(broker, home)
    yield agent
    agent.stop()

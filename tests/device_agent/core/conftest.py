from pathlib import Path

import pytest

from tests.device_agent.core.driving import Driven


@pytest.fixture
def agent(tmp_path: Path) -> Driven:
    """An agent that has just started for the first time."""
    return Driven(tmp_path / "agent.db")


@pytest.fixture
def ready(agent: Driven) -> Driven:
    """An agent that is connected, welcomed and assigned the classes cat and dog."""
    agent.connect()
    agent.assign("cat", "dog")
    if agent.job() is None:
        agent.messages()
        agent.receipt_for_nothing()
    return agent


@pytest.fixture
def waiting(ready: Driven) -> Driven:
    """An agent whose first part is in the outbox and was sent once."""
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("payload")
    assert len(ready.messages()) == 1
    return ready

"""A device whose database cannot be written: nothing is acknowledged, and it goes on afterwards."""

import contextlib
import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from device_agent.errors import StoreError
from device_agent.running import build_agent
from device_agent.shell import Agent
from schemas.contributions import Contribution
from tests.device_agent.scripted import (
    DEVICE,
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    greet,
    stsa_assignment,
    write_settings,
)
from transport.memory import InMemoryBroker

Break = Callable[[Agent, Path], "sqlite3.Connection | None"]


def fill(agent: Agent, _path: Path) -> None:
    """Let the database grow no further, as on a full disk (SQLITE_FULL)."""
    db = agent._parts.store._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count={pages}").fetchone()
    with contextlib.suppress(sqlite3.OperationalError):
        for number in itertools.count():
            db.execute("INSERT INTO fact VALUES (?, 'junk')", [f"junk {number}"])


def lock(agent: Agent, path: Path) -> sqlite3.Connection:
    """Let somebody else write, and not end (SQLITE_BUSY)."""
    agent._parts.store._db.execute("PRAGMA busy_timeout=50").fetchone()
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    return other


def until_it_fails(agent: Agent) -> None:
    for _ in range(100):
        agent.step(0.05)


@pytest.mark.parametrize(("spoil", "word"), [(fill, "full"), (lock, "locked")])
def test_what_cannot_be_written_is_not_acknowledged_and_comes_again(
    broker: InMemoryBroker,
    coordinator: ScriptedCoordinator,
    home: Path,
    spoil: Break,
    word: str,
) -> None:
    opened = write_settings(home)
    agent = build_agent(
        opened,
        lambda role, will: broker.connection(f"{DEVICE}.{role}", user=str(DEVICE), will=will),
        FAST,
    )
    agent.begin()
    for _ in range(10):
        agent.step(0.01)
    blocking = spoil(agent, opened.state_folder / "agent.db")
    coordinator.assign(stsa_assignment()[0])
    with pytest.raises(StoreError, match=word):
        until_it_fails(agent)
    assert agent._parts.state.records.assignment is None
    broker.drop_connection(f"{DEVICE}.control", comes_back=False)
    agent._parts.exchange.stop()
    agent._parts.store.close()
    if blocking is not None:
        blocking.close()

    while coordinator.connection.next_event(0.05) is not None:
        pass  # the births of the first run
    coordinator.arrived.clear()
    running = RunningAgent(broker, home)
    try:
        greet(coordinator)
        _, envelope = coordinator.wait_for(Contribution)
        coordinator.accept(envelope)
    finally:
        running.stop()

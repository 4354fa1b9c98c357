"""A device whose disk is full acknowledges nothing, says so in its status, and goes on after."""

import contextlib
import itertools
import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.home.status_file import read_status, write_status
from fleetledger.device_agent.home.store import store as store_module
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.program.assembly import AgentSurroundings, assemble
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.reports import Problem
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import model_files as models
from tests.device_agent.agent_process import PATIENCE, AgentProcess
from tests.device_agent.scripted import (
    DEVICE,
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
    stsa_assignment,
    welcome_until,
    write_settings,
)
from tests.small_disk import small_disk

Break = Callable[[AgentShell, Path], "sqlite3.Connection | None"]


def fill(agent: AgentShell, _path: Path) -> None:
    """Let the database grow no further, as on a full disk (SQLITE_FULL)."""
    db = agent._parts.store._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count={pages}").fetchone()
    with contextlib.suppress(sqlite3.OperationalError):
        for number in itertools.count():
            row = ["reported", f"junk {number}", ""]
            db.execute("INSERT INTO record (field, key, value) VALUES (?, ?, ?)", row)


def lock(agent: AgentShell, path: Path) -> sqlite3.Connection:
    """Let somebody else write, and not end (SQLITE_BUSY)."""
    agent._parts.store._db.execute("PRAGMA busy_timeout=50").fetchone()
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    return other


def until_it_fails(agent: AgentShell) -> None:
    for _ in range(100):
        agent.step(0.05)


@pytest.mark.parametrize(("spoil", "word"), [(fill, "full"), (lock, "locked")])
def test_what_cannot_be_written_is_not_acknowledged_and_comes_again(
    broker: InMemoryBroker,
    coordinator: ScriptedCoordinator,
    home: Path,
    spoil: Break,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "HELD_SECONDS", 0.0)
    opened = write_settings(home)
    agent = assemble(
        opened,
        AgentSurroundings(
            lambda role, will: broker.connection(f"{DEVICE}.{role}", user=str(DEVICE), will=will),
            rules=FAST,
        ),
    ).agent
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


def status_of(home: Path) -> Result:
    return CliRunner().invoke(app, ["status", "--home", str(home)])


def test_a_database_that_cannot_be_written_ends_the_agent_and_status_says_why(
    broker: InMemoryBroker,
    coordinator: ScriptedCoordinator,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = write_settings(home)
    connect = lambda role, will: broker.connection(  # noqa: E731
        f"{DEVICE}.{role}", user=str(DEVICE), will=will
    )
    agent = assemble(opened, AgentSurroundings(connect, rules=FAST)).agent
    begin = agent.begin
    monkeypatch.setattr(agent, "begin", lambda: (begin(), fill(agent, opened.state_folder)))
    coordinator.assign(stsa_assignment()[0])
    with pytest.raises(StoreError, match="full"):
        agent.run()
    status = read_status(opened.status_file)
    assert status is not None
    assert "database or disk is full" in status.ended
    # As of an agent in a process of its own, which has ended.
    write_status(opened.status_file, status.model_copy(update={"process": 2**22 + 1}))
    told = status_of(home)
    assert told.exit_code == ExitCode.NOT_RUNNING
    assert "has ended:" in told.output
    assert "database or disk is full" in told.output


def test_a_locked_database_is_told_by_status(home: Path) -> None:
    opened = write_settings(home)
    opened.state_folder.mkdir()
    AgentStore(opened.state_folder / "agent.db").close()
    with closing(sqlite3.connect(opened.state_folder / "agent.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        told = status_of(home)
    assert told.exit_code == ExitCode.NOT_RUNNING
    assert "agent.db: the database is locked by another program" in told.output
    assert "hindered" not in status_of(home).output


def test_a_database_that_a_backup_holds_is_waited_for_and_told_meanwhile(
    broker: InMemoryBroker,
    coordinator: ScriptedCoordinator,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "_BUSY_MILLISECONDS", 50)
    running = RunningAgent(broker, home)

    def hindered() -> list[str]:
        found = read_status(running.home.status_file)
        return [] if found is None else [item.text for item in found.problems if item.hinders]

    try:
        greet(coordinator)
        with closing(sqlite3.connect(running.home.state_folder / "agent.db")) as backup:
            backup.execute("BEGIN IMMEDIATE")
            coordinator.assign(stsa_assignment()[0])
            eventually(lambda: any("locked by another program" in text for text in hindered()))
        _, envelope = coordinator.wait_for(Contribution)
        coordinator.accept(envelope)
        eventually(lambda: not any("locked" in text for text in hindered()))
    finally:
        running.stop()


@pytest.mark.broker
def test_a_model_that_a_full_disk_refuses_runs_once_there_is_room_without_a_restart(
    process_coordinator: ScriptedCoordinator, process_home: Path
) -> None:
    (process_home / "state").mkdir()
    with small_disk(process_home / "state" / "blobs", 1) as disk:
        disk.fill()
        agent = AgentProcess(process_home)
        greet(process_coordinator)
        model = models.exported(1)
        desired = models.desired_of(model.manifest, model)
        files = (model.manifest.canonical_bytes(), *model.files.values())
        process_coordinator.desire(desired, *files)
        process_coordinator.wait_for(Problem, lambda body: "No space left" in body.text)
        eventually(lambda: status_of(process_home).exit_code == ExitCode.NEEDS_A_PERSON)
        assert re.search(r"hindered     since [-0-9: ]+: file", status_of(process_home).output)
        assert "No space left on device" in status_of(process_home).output
        assert agent.process.poll() is None
        disk.empty()
        assert process_coordinator.wait_for(ModelStatus)[0].state == "active"
        eventually(lambda: status_of(process_home).exit_code == 0)
        assert read_status(process_home / "status.json").process == agent.process.pid
        assert agent.end(signal.SIGTERM) == 0
    assert b"Traceback" not in (process_home / "log").read_bytes()


@pytest.mark.broker
def test_an_agent_on_a_disk_that_is_full_throughout_ends_or_waits_and_goes_on_afterwards(
    process_coordinator: ScriptedCoordinator, process_home: Path
) -> None:
    with small_disk(process_home / "state", 4) as disk:
        agent = AgentProcess(process_home)
        greet(process_coordinator)
        eventually(lambda: status_of(process_home).exit_code == 0)
        disk.fill()
        process_coordinator.assign(stsa_assignment()[0])
        eventually(lambda: status_of(process_home).exit_code != 0)
        assert "the disk is full, 0 bytes are free" in status_of(process_home).output
        assert agent.process.wait(PATIENCE) == 1
        assert b"agent.db: cannot be written" in (process_home / "log").read_bytes()
        told = status_of(process_home)
        assert told.exit_code == ExitCode.NOT_RUNNING
        assert "has ended:" in told.output
        disk.empty()
        agent = AgentProcess(process_home)  # as a service manager does
        welcome_until(process_coordinator, Contribution)
        assert agent.end(signal.SIGTERM) == 0
    assert b"Traceback" not in (process_home / "log").read_bytes()

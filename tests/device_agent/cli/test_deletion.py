"""`agent forget` says what it deletes, deletes that and nothing else, and never under an agent."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import AgentHome, lock_home
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models.features.cache import FeatureCache
from fleetledger.runtime import command_output
from fleetledger.runtime.errors import NobodyToAskError
from fleetledger.schemas.rounds import RoundAnswer
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.core.driving import Driven
from tests.device_agent.scripted import write_settings

MEMORY, EARLIER, WEIGHTS = b"exemplars as features", b"an earlier memory", b"weights 1"


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    """A home in which a round was answered and a class's features are remembered."""
    home = write_settings(tmp_path)
    models.put_pictures(home.data_folder, "cat", 1)
    blobs = BlobFolder(home.state_folder / "blobs")
    for data in (MEMORY, EARLIER, WEIGHTS):
        blobs.put(data)
    (blobs.folder / "torn.new").write_bytes(MEMORY[:5])
    agent = Driven(home.state_folder / "agent.db")
    agent.connect()
    agent.put(one="cat/1")
    agent.order(1)
    agent.train(memory=MEMORY.decode(), answer=answer_with(agent, exemplars=4))
    agent.store.close()
    cache = FeatureCache(home.feature_cache, megabytes=1)
    cache.write(making.digest("source"), {making.digest("image"): np.ones(8, np.float32)})
    cache.close()
    return home


def answer_with(agent: Driven, exemplars: int):
    job = agent.state.training.job
    return RoundAnswer(
        number=job.key.part, samples=3, steps=2, seconds=0.5, stored_samples=exemplars
    )


def forget(home: AgentHome, *options: str, answer: str = ""):
    return CliRunner().invoke(app, ["forget", "--home", str(home.folder), *options], input=answer)


def records(home: AgentHome) -> AgentRecords:
    store = AgentStore(home.state_folder / "agent.db")
    try:
        return store.load()
    finally:
        store.close()


def files(home: AgentHome) -> set[bytes]:
    return {path.read_bytes() for path in (home.state_folder / "blobs").iterdir()}


def test_it_says_what_it_deletes_and_deletes_that_alone(home: AgentHome) -> None:
    before = records(home)
    assert (before.memory, before.exemplars) == (making.digest(MEMORY.decode()), 4)
    said = forget(home, "--yes")
    assert said.exit_code == 0
    assert f"what training remembers: 4 exemplars, {21 + 17 + 5} bytes" in said.output
    assert f"the cache of features: {home.feature_cache}, " in said.output
    assert said.output.endswith("deleted\n")
    assert files(home) == {WEIGHTS}
    assert not list(home.state_folder.glob("features.db*"))
    after = records(home)
    assert (after.memory, after.exemplars) == (None, 0)
    assert after.outbox == before.outbox
    assert len(list(home.data_folder.rglob("*.png"))) == 1
    assert "nothing is kept here" in forget(home).output


def test_nothing_is_deleted_before_the_owner_agrees(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(home)
    alone = forget(home)
    assert isinstance(alone.exception, NobodyToAskError)
    assert "nothing was done: say --yes if it is to be deleted" in str(alone.exception)
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(command_output, "sys", terminal)
    assert forget(home, answer="n\n").exit_code == 1
    assert files(home) == before
    assert records(home).memory is not None
    assert forget(home, answer="y\n").exit_code == 0
    assert files(home) == {WEIGHTS}


def test_it_refuses_while_an_agent_runs(home: AgentHome) -> None:
    lock = lock_home(home.folder)
    try:
        said = forget(home, "--yes")
    finally:
        os.close(lock)
    assert isinstance(said.exception, HomeError)
    assert "another agent runs here; stop it first" in str(said.exception)
    assert MEMORY in files(home)


def test_a_home_in_which_nothing_ran_has_nothing_to_forget(tmp_path: Path) -> None:
    home = write_settings(tmp_path)
    said = forget(home)
    assert (said.exit_code, home.state_folder.exists()) == (0, False)
    assert "nothing is kept here" in said.output


@pytest.mark.parametrize("offered", [False, True])
def test_gradients_that_wait_for_the_proxy_are_deleted_with_it(
    home: AgentHome, offered: bool
) -> None:
    made = making.gradients("gradients of a prototype", offered=offered)
    if offered:
        BlobFolder(home.state_folder / "blobs").put(b"gradients of a prototype")
    agent = Driven(home.state_folder / "agent.db")
    agent.give(inputs.Started(files=frozenset({made.payload})))
    agent.connect()
    agent.put(one="cat/1")
    agent.order(2, action=2)
    agent.train(memory=MEMORY.decode(), gradients=made)
    agent.store.close()
    answers = [key for key in records(home).outbox if key.about != "gradients"]
    assert len(answers) < len(records(home).outbox)
    said = forget(home, "--yes")
    assert "gradients for the proxy: 1 set, 24 bytes" in said.output
    assert list(records(home).outbox) == answers
    assert files(home) == set(), "nor are the weights of round 1 needed any more"
    database = [path.read_bytes() for path in home.state_folder.glob("agent.db*")]
    assert not any(b"gradients of a prototype" in content for content in database)

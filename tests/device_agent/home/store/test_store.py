"""The database: what is loaded is what was applied, over any history; and what it refuses."""

import random
import sqlite3
from pathlib import Path

import pytest

from fleetledger.device_agent.cli.deletion import forget_memory
from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.counting import part_written
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import ClassName
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

CLASSES = ("cat", "dog", "owl")


def live_one_moment(agent: Driven, chance: random.Random) -> None:
    """Let something happen to the agent, sensible or not."""
    outbox = list(agent.state.records.outbox.items())
    match chance.randrange(13):
        case 0 | 1:
            agent.put(
                **{
                    f"i{n}": f"{chance.choice(CLASSES)}/{n}"
                    for n in range(12)
                    if chance.random() < 0.7
                }
            )
            agent.scan()
        case 2 | 3 if agent.job() is not None:
            agent.compute(f"payload {chance.random()}", unusable=(str(chance.randrange(12)),))
        case 4 if outbox:
            message, item = chance.choice(outbox)
            agent.receipt(making.accepted(message.about, message.key, item.revision))
        case 5 if outbox:
            message, item = chance.choice(outbox)
            agent.receipt(making.refused(message.about, message.key, item.revision))
        case 6:
            held = [making.held(chance.randrange(6), chance.randrange(3), "strange")]
            agent.connect(*held, next_part=chance.randrange(8))
        case 7:
            known = agent.state.records.assignment
            agent.assign(
                *chance.sample(CLASSES, 2),
                action=(known.action if known else 0) + 1,
                stage=chance.randrange(1, 4),
                per_part=5,
                frozen=chance.choice(("frozen", "other")),
            )
        case 8:
            agent.connect(coordinator=making.LATER_COORDINATOR, ledger_size=chance.randrange(30))
        case 10:
            last, looks = agent.state.records.last_action, chance.random() < 0.3
            agent.order(chance.randrange(1, 9), action=last + 1, observes=looks)
        case 11 if agent.state.training.job is not None:
            end_training(agent, chance)
        case 12:
            agent.store.commit(agent.state.records, (Durable(forget_memory),))
        case 9:
            last = agent.state.records.last_action
            agent.give(inputs.DesiredArrived(making.COORDINATOR, making.desired(last + 1)))


def end_training(agent: Driven, chance: random.Random) -> None:
    """Let a training or a look end."""
    memory = chance.choice((None, "one", "two"))
    if agent.state.training.job.observes:
        agent.look(memory=memory, entropy=chance.random())
        return
    made = making.gradients(str(chance.random()), offered=chance.random() < 0.3)
    gradients = chance.choice((None, made))
    agent.train(f"weights {chance.random()}", memory=memory, gradients=gradients)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_loaded_equals_what_was_applied(tmp_path: Path, seed: int) -> None:
    agent = Driven(tmp_path / "agent.db", policy=PolicySettings(publish_gradients=True))
    chance = random.Random(seed)
    for _ in range(120):
        live_one_moment(agent, chance)
        loaded = agent.store.load()
        assert loaded == agent.state.records
        assert list(loaded.outbox) == list(agent.state.records.outbox), "the order of messages"
    assert agent.state.records.parts, "the history was empty"


def test_a_set_of_changes_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agent.db")
    records, before = store.load(), store.load()
    contribution = Contribution(
        key=making.part_key(),
        revision=0,
        payload_kind="statistics",
        method="stsa",
        lineage=making.digest("frozen"),
        payload=making.digest("payload"),
        payload_bytes=7,
        samples={"cat": 1},
    )
    written = part_written(contribution, ((making.digest("1"), ClassName("cat")),), b"payload")
    other = contribution.model_copy(update={"key": making.part_key(1, 1)})
    impossible = part_written(other, (), object())  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="cannot be written"):
        store.commit(records, (written, impossible))
    assert store.load() == records == before
    store.commit(records, (written,))
    assert store.load() == records != before
    assert store.payload(OutboxKey("contribution", making.part_key())) == b"payload"


def test_commits_are_on_the_disk_before_they_return(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agent.db")
    modes = [store._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode",)]
    assert modes == ["wal"]
    assert store._db.execute("PRAGMA synchronous").fetchone()[0] == 2, "FULL"


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(b"these are not the tables that you are looking for " * 100)
    with pytest.raises(StoreError, match=r"agent\.db: cannot be opened"):
        AgentStore(path)


@pytest.mark.parametrize("layout", [0, 2])
def test_a_database_of_another_release_is_refused(tmp_path: Path, layout: int) -> None:
    path = tmp_path / "agent.db"
    AgentStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {layout}")
    text = f"layout {layout} of another release, this one has 1; run the release that wrote it"
    with pytest.raises(StoreError, match=text):
        AgentStore(path)


def test_a_body_that_cannot_be_read_is_reported_and_nothing_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store = AgentStore(path)
    with sqlite3.connect(path) as db:
        db.execute(
            "INSERT INTO record (field, key, value) VALUES ('assignment', '', '{\"action\":1}')"
        )
    with pytest.raises(StoreError, match="stage"):
        store.load()

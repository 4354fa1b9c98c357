"""A database of an earlier agent is taken over without loss."""

import json
import shutil
import sqlite3
from collections.abc import Mapping, Set
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from sqlite_utils import Database

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.changes.measurements import TransitionWritten
from fleetledger.device_agent.core.changes.rounds import GradientsWritten
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.records import OutboxKey, OutboxMessage
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.store.schema import MIGRATIONS
from fleetledger.device_agent.store.store import AgentStore
from fleetledger.learning.numerics.detection import ENTROPY, Detector
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import BootId, ClassName
from tests.device_agent import making


@pytest.mark.parametrize("step", ["let_letters_be_transitions", "let_letters_be_gradients"])
def test_messages_stay_in_their_order_over_the_upgrade(tmp_path: Path, step: str) -> None:
    path = tmp_path / "agent.db"
    before = Database(str(path))
    MIGRATIONS.apply(before, stop_before=step)
    for stage in (3, 1, 2):
        before.execute(
            "INSERT INTO outbox (about, stage, part, revision, body) VALUES (?, ?, 0, 0, ?)",
            ["nothing", stage, f'{{"stage":{stage}}}'],
        )
    before.execute("DELETE FROM outbox WHERE stage = 2")
    before.conn.commit()
    before.close()

    store = AgentStore(path)
    assert [key.key.stage for key in store.load().outbox] == [3, 1]
    told = Transition(stage=1, number=0, why="class name", classes={ClassName("owl"): 2})
    store.commit(store.load(), (TransitionWritten(told),))
    messages = store.load().outbox
    assert list(messages)[-1] == OutboxKey("transition", making.part_key(1, 0))
    assert messages[list(messages)[-1]].body == told
    body = PrototypeGradients(
        key=making.part_key(1, 4),
        method="lga",
        lineage=making.digest("network"),
        payload=making.digest("gradients"),
        payload_bytes=9,
    )
    store.commit(store.load(), (GradientsWritten(body, b"gradients"),))
    key = OutboxKey("gradients", body.key)
    assert list(store.load().outbox.items())[-1] == (key, OutboxMessage(0, body))
    assert store.payload(key) == b"gradients"
    store.close()


FORMER = Path(__file__).parent / "agent-with-tables.db"
"""Of an agent that had a table for each thing: written by it, with every kind of record."""
FORMER_RECORDS = FORMER.with_suffix(".json")
"""What that agent itself read out of it."""


def plain(value: object) -> Any:
    """Return a record as plain values, mappings and sets as sorted lists where order is nothing."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def as_of_now(records: dict[str, Any]) -> dict[str, Any]:
    """Return former records with what records have had since, empty."""
    former = records["detector"]
    detector = plain(Detector()) | former | {"head": [*former["head"], "", ENTROPY, ""]}
    return plain(AgentRecords()) | records | {"detector": detector}


def rows(path: Path) -> dict[tuple[str, str], object]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT field, key, value FROM record").fetchall()
    return {(name, key): _read(value) for name, key, value in found}


def _read(text: str) -> object:
    return json.loads(text) if text[:1] in ("[", "{") else text


class Written(Durable):
    """Everything, as if it had happened at once."""

    def __init__(self, records: AgentRecords) -> None:
        self.records = records

    def __call__(self, draft: Draft) -> None:
        for item in fields(AgentRecords):
            value = getattr(self.records, item.name)
            if item.name in ("counted", "unanswered"):
                for group, images in value.items():
                    getattr(draft, item.name)[group].update(images)
            elif isinstance(value, Mapping):
                getattr(draft, item.name).update(value)
            elif isinstance(value, Set):
                for member in value:
                    getattr(draft, item.name).add(member)
            elif value != getattr(draft, item.name):
                setattr(draft, item.name, value)


def test_a_database_of_tables_is_taken_over_without_loss(tmp_path: Path) -> None:
    path = Path(shutil.copy(FORMER, tmp_path / "agent.db"))
    store = AgentStore(path)
    records = store.load()
    expected = json.loads(FORMER_RECORDS.read_text("utf-8"))
    assert plain(records) == as_of_now(expected["records"])
    assert store.installation == expected["installation"]
    assert list(store.begin_run(BootId("f" * 16))) == expected["runs"]
    assert [item.reason for item in store.dead_letters()] == expected["reasons"]
    attached = {key: store.payload(key).decode() for key in records.outbox}
    assert [[plain(key), text] for key, text in attached.items() if text] == expected["attached"]
    store.close()
    with closing(AgentStore(path)) as again:
        assert again.load() == records


def test_what_is_taken_over_stands_as_this_program_writes_it(tmp_path: Path) -> None:
    former = Path(shutil.copy(FORMER, tmp_path / "former.db"))
    with closing(AgentStore(former)) as store:
        records = store.load()
    with closing(AgentStore(tmp_path / "fresh.db")) as store:
        store.commit(AgentRecords(), (Written(records),))
        assert store.load() == records
    assert rows(former) == rows(tmp_path / "fresh.db")


def test_a_takeover_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = Path(shutil.copy(FORMER, tmp_path / "agent.db"))
    with closing(sqlite3.connect(path)) as db:
        (look,) = db.execute("SELECT value FROM fact WHERE name = 'look'").fetchone()
        db.execute("UPDATE fact SET value = '{' WHERE name = 'look'")
        db.commit()
    with pytest.raises(StoreError, match="JSON"):
        AgentStore(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE fact SET value = ? WHERE name = 'look'", [look])
        db.commit()
    with closing(AgentStore(path)) as store:
        expected = json.loads(FORMER_RECORDS.read_text("utf-8"))["records"]
        assert plain(store.load()) == as_of_now(expected)

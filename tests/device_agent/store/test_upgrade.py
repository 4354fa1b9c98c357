"""A database of an agent that knew fewer kinds of letters keeps them, and takes the new ones."""

from pathlib import Path

import pytest
from sqlite_utils import Database

from device_agent.core.changes import GradientsWritten, TransitionWritten
from device_agent.core.records import Letter, LetterKey
from device_agent.store.schema import MIGRATIONS
from device_agent.store.store import Store
from schemas.proxy import PrototypeGradients
from schemas.reports import Transition
from schemas.values import ClassName
from tests.device_agent import making


@pytest.mark.parametrize("step", ["let_letters_be_transitions", "let_letters_be_gradients"])
def test_letters_stay_in_their_order_over_the_upgrade(tmp_path: Path, step: str) -> None:
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

    store = Store(path)
    assert [key.key.stage for key in store.load().outbox] == [3, 1]
    told = Transition(stage=1, number=0, why="class name", classes={ClassName("owl"): 2})
    store.commit((TransitionWritten(told),))
    letters = store.load().outbox
    assert list(letters)[-1] == LetterKey("transition", making.part_key(1, 0))
    assert letters[list(letters)[-1]].body == told
    body = PrototypeGradients(
        key=making.part_key(1, 4),
        method="lga",
        lineage=making.digest("network"),
        payload=making.digest("gradients"),
        payload_bytes=9,
    )
    store.commit((GradientsWritten(body, b"gradients"),))
    key = LetterKey("gradients", body.key)
    assert list(store.load().outbox.items())[-1] == (key, Letter(0, body))
    assert store.payload(key) == b"gradients"
    store.close()

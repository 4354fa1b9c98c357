"""Stores that are closed and opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.core.changes import Put
from fleetledger.device_agent.core.counting import nothing_written
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.schemas.values import BootId

NAME = BootId("5" * 16)


def test_a_new_installation_gets_the_name_that_is_given(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agent.db", name=lambda: NAME)
    assert store.installation == NAME
    store.close()
    again = AgentStore(tmp_path / "agent.db", name=lambda: BootId("6" * 16))
    assert again.installation == NAME
    again.close()


@pytest.mark.parametrize("durable", [True, False])
def test_a_store_that_was_open_before_holds_what_was_committed(
    tmp_path: Path, durable: bool
) -> None:
    path = tmp_path / "agent.db"
    store = AgentStore(path, durable=durable)
    store.commit(store.load(), [Put(next_part=4), nothing_written(2)])
    records = store.load()
    store.close()
    again = AgentStore(path, durable=durable)
    assert again.installation == store.installation
    assert again.load() == records
    again.commit(again.load(), [Put(next_part=5)])
    again.close()
    last = AgentStore(path)
    assert last.load().next_part == 5
    last.close()

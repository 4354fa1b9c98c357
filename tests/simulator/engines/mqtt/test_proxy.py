"""A proxy in the engine `mqtt`: a process of its own, to which agents send gradients."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.records import StageRecord
from tests.simulator.engines.mqtt.small import processes_of
from tests.simulator.rounds.small import Watching, prepared, with_proxy

pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.nightly]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy") / "seed-1"


@pytest.fixture(scope="module")
def records(folder: Path) -> list[StageRecord]:
    fleet = prepared(with_proxy(devices=2))
    with closing(MqttEngine(fleet, folder, Watching())) as engine:
        return [engine.learn(stage) for stage in fleet.plan.stages]


@pytest.fixture(scope="module")
def ledger(records: list[StageRecord], folder: Path) -> list[EntryBody]:
    assert len(records) == 2
    with ledger_of(folder / "coordinator") as reader:
        return [read_entry(entry.kind, entry.body) for entry in reader.entries()]


def test_rounds_are_scored_and_the_second_task_has_an_old_model(ledger: list[EntryBody]) -> None:
    assert not [body for body in ledger if isinstance(body, OldModelMissed)]
    chosen = {body.number: body for body in ledger if isinstance(body, OldModelChosen)}
    assert chosen.keys() >= {1, 2, 3}  # nobody waits for the score of the last one
    assert chosen[3].previous is not None
    (last,) = (body for body in ledger if isinstance(body, RoundOpened) and body.number == 4)
    assert last.extras["old-model"] == chosen[3].previous.weights


def test_looks_are_in_the_records(records: list[StageRecord]) -> None:
    for record in records:
        assert {look.device for look in record.novelty_checks} == set(record.devices)
        first = {
            look.device for look in record.novelty_checks if look.round == 1 and look.transition
        }
        assert first <= set(record.devices)
        assert first


def test_the_proxy_has_a_home_and_ends_with_the_fleet(
    records: list[StageRecord], folder: Path
) -> None:
    assert [len(record.rounds) for record in records] == [2, 2]
    assert (folder / "proxy" / "proxy.db").exists()
    assert processes_of(folder) == []

"""What is recorded of light agents' rounds as they go on is what their ledger says afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.round_log import RoundLog
from fleetledger.simulator.records import RoundRecord
from tests.simulator.rounds.small import Watching, prepared, small

pytestmark = pytest.mark.torch


def test_records_are_those_of_a_log_that_reads_all_of_the_ledger(tmp_path: Path) -> None:
    what = prepared(small(rounds={"per_stage": 2}))
    engine = LightEngine(what, tmp_path, Watching(lambda _: None))
    try:
        told = engine.learn(what.plan.stages[0]).rounds
        ledger = engine._fleet.coordinator.engine.ledger
        log = RoundLog(ledger, State(), tmp_path / "again.jsonl", 1)
        log.look(state_of(ledger), lambda *_: 0.5)
        (stage,) = engine._numbers(what.plan.stages[0])
        read = log.records((stage,))
    finally:
        engine.close()
    assert list(map(facts, told)) == list(map(facts, read))
    assert len(read) == 2
    assert all(record.loss and record.steps for record in read)


def facts(record: RoundRecord) -> dict[str, object]:
    """Return what does not depend on the clock or on who measures."""
    return record.model_dump(exclude={"seconds", "accuracy"})

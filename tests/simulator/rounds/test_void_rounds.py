"""A run whose rounds come to nothing ends with a sentence that says what was refused, by whom."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.topics.rounds.entries import RoundsStopped
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.errors import EngineError
from tests.simulator.engines.inprocess.light.both import said
from tests.simulator.rounds.small import Watching, distilling, prepared, small

pytestmark = pytest.mark.torch

DIVERGING = {"settings": {"rate": 1e30}}


def ended(engine: InProcessEngine | LightEngine, what: Prepared) -> str:
    """Return the sentence with which a run ended."""
    with closing(engine):
        try:
            for stage in what.plan.stages:
                engine.learn(stage)
        except EngineError as error:
            return str(error)
    raise AssertionError("the run did not end in an error")


@pytest.mark.parametrize("engine", [InProcessEngine, LightEngine])
def test_weights_that_diverge_end_the_run(
    engine: type[InProcessEngine | LightEngine], tmp_path: Path
) -> None:
    what = prepared(small(method=DIVERGING))
    sentence = ended(engine(what, tmp_path, Watching()), what)
    assert "rounds 1 to 5" in sentence
    assert "device-1, device-2, device-3" in sentence
    assert "train with a lower rate" in sentence


def test_light_agents_leave_the_entries_of_ones_that_act_up_to_the_stop(tmp_path: Path) -> None:
    what = prepared(small(method=DIVERGING, rounds={"void_rounds": 3}))
    told = []
    for name, make in (("timed", InProcessEngine), ("light", LightEngine)):
        engine = make(what, tmp_path / name, Watching())
        with closing(engine):
            with pytest.raises(EngineError):
                engine.learn(what.plan.stages[0])
            ledger = [
                (entry, read_entry(entry.kind, entry.body))
                for entry in engine._fleet.coordinator.engine.ledger.entries()
            ]
        assert isinstance(ledger[-1][1], RoundsStopped)
        told.append(said(ledger))
    assert told[0] == told[1]


def test_a_run_in_which_no_owner_shares_ends(tmp_path: Path) -> None:
    scenario = distilling()
    policy = scenario.devices.policy.model_copy(update={"publish_images": False})
    refusing = scenario.devices.model_copy(update={"policy": policy})
    what = prepared(scenario.model_copy(update={"devices": refusing}))
    sentence = ended(InProcessEngine(what, tmp_path, Watching()), what)
    assert "'share'" in sentence
    assert "policy.publish_images" in sentence

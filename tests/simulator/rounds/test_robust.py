"""Robust rounds in a simulated fleet: one model whoever carries them out, and who poisons it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.methods.training.robust import Robust
from fleetledger.simulator.engines import rounds
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.scenario.model import Scenario
from tests.coordinator.replay.stories import replay
from tests.simulator.rounds.small import Watching, prepared, rounds_by_hand, small

pytestmark = pytest.mark.torch

TRIMMED = {"mean": "trimmed", "trim": 0.3, "max_norm": 2.0}


def fleet(
    devices: int = 5,
    engine: dict[str, Any] | None = None,
    poisoned: dict[str, float] | None = None,
    **robust: Any,
) -> Scenario:
    return small(
        devices={"count": devices, "poisoned": poisoned},
        stages={"classes": 4, "count": 1},
        rounds={"per_stage": 2, "robust": robust or TRIMMED},
        method={"settings": {"rate": 0.05}},
        engine=engine or {},
    )


def learned(make: Any, scenario: Scenario, folder: Path) -> list[EntryBody]:
    what = prepared(scenario)
    with closing(make(what, folder, Watching())) as engine:
        for stage in what.plan.stages:
            engine.learn(stage)
    with LedgerReader.open_read_only(ledger_path(folder / "coordinator")) as ledger:
        return [read_entry(entry.kind, entry.body) for entry in ledger.entries()]


def averaged(told: list[EntryBody]) -> list[WeightsAveraged]:
    return [body for body in told if isinstance(body, WeightsAveraged)]


def of_rounds(told: list[EntryBody]) -> list[tuple[Any, ...]]:
    return [
        (one.aggregate, one.weights, one.remarks, sorted(zip(one.norms, one.cosines, strict=True)))
        for one in averaged(told)
    ]


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> list[EntryBody]:
    return learned(LightEngine, fleet(), tmp_path_factory.mktemp("light"))


def test_a_round_says_what_it_is_and_what_was_cut(light: list[EntryBody]) -> None:
    opened = [body for body in light if isinstance(body, RoundOpened)]
    assert [body.robust for body in opened] == [Robust(**TRIMMED)] * 2
    for body in averaged(light):
        assert "without 1 at each end of 5 answers" in body.remarks[0]
        assert len(body.norms) == len(body.cosines) == 5


def test_workers_and_whole_agents_come_to_the_same_and_replay_too(
    light: list[EntryBody], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = learned(LightEngine, fleet(engine={"workers": 2}), tmp_path / "workers")
    assert of_rounds(workers) == of_rounds(light)
    usual = rounds.round_rules
    kept = {"retention": "all", "keep_weights": "all"}
    monkeypatch.setattr(rounds, "round_rules", lambda *of: usual(*of).model_copy(update=kept))
    whole = learned(InProcessEngine, fleet(), tmp_path / "whole")
    assert of_rounds(whole) == of_rounds(light)
    code, out = replay(tmp_path / "whole" / "coordinator", "--all")
    assert code == 0, out
    assert out.count("equal") >= 3
    assert "differs" not in out


def test_both_sides_called_by_hand_come_to_the_same(tmp_path: Path) -> None:
    for ledger, hand in rounds_by_hand(prepared(fleet(mean="median")), tmp_path):
        assert ledger == hand


@pytest.mark.broker
def test_programs_come_to_the_same(tmp_path: Path) -> None:
    scenario = fleet(devices=3, mean="median")
    programs = learned(MqttEngine, scenario, tmp_path / "seed-1")
    assert of_rounds(programs) == of_rounds(learned(LightEngine, scenario, tmp_path / "light"))


def poisoned(tmp_path: Path, factor: float, **robust: Any) -> list[WeightsAveraged]:
    scenario = fleet(devices=10, poisoned={"share": 0.2, "factor": factor}, **robust)
    return averaged(learned(LightEngine, scenario, tmp_path))


def test_turned_moves_have_a_cosine_below_zero_and_blown_up_ones_are_long(tmp_path: Path) -> None:
    turned = poisoned(tmp_path / "turned", -1.0, mean="mean")[0]
    below = [cosine for cosine in turned.cosines if cosine is not None and cosine < 0]
    assert len(below) == 2
    blown = poisoned(tmp_path / "blown", 50.0, mean="mean", max_norm=1.0)[0]
    assert sum(norm > 1 for norm in blown.norms) == 2, blown.norms
    assert blown.remarks == ("2 answers moved farther than 1, and count less",)
    assert turned.aggregate != blown.aggregate


def test_a_longer_answer_is_refused_where_it_is_to_be(tmp_path: Path) -> None:
    scenario = fleet(mean="mean", max_norm=1e-3, beyond="refuse")
    what = prepared(scenario)
    with (
        closing(LightEngine(what, tmp_path, Watching())) as engine,
        pytest.raises(Exception, match=r"answer: moves by .*rounds.robust.max_norm is 0.001"),
    ):
        engine.learn(what.plan.stages[0])

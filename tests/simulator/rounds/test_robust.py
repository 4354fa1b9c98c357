"""Robust rounds in a simulated fleet: one model whoever carries them out, and who poisons it.

Programs over a broker carry them out in `engines/mqtt/test_rounds.py`.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.methods.training.robust import Robust
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines import rounds
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import RoundSettings
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


def inspect(home: Path, *options: str) -> tuple[int, dict[str, Any]]:
    command = ["inspect", "--home", str(home), "--json", *options]
    result = CliRunner().invoke(cli.app, command)
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


def test_inspection_names_those_who_turn_their_moves(tmp_path: Path) -> None:
    poison = {"share": 0.2, "factor": -1.0}
    scenario = fleet(devices=10, poisoned=poison, mean="median").model_copy(
        update={"rounds": RoundSettings(per_stage=5, robust=Robust(mean="median"))}
    )
    learned(LightEngine, scenario, tmp_path)
    code, found = inspect(tmp_path / "coordinator")
    assert code == 1
    against = [one["name"] for one in found["devices"] if one["verdict"] == "against the others"]
    assert sorted(against) == ["device-10", "device-5"]
    assert found["rounds"] == [1, 2, 3, 4, 5]


def test_kept_answers_are_measured_afterwards_and_rounds_made_without_a_device(
    light: list[EntryBody], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = rounds.round_rules
    kept = {"retention": "all", "keep_weights": "all", "robust": None}
    monkeypatch.setattr(rounds, "round_rules", lambda *of: usual(*of).model_copy(update=kept))
    plain = learned(InProcessEngine, fleet(), tmp_path)
    home, file = tmp_path / "coordinator", tmp_path / "weights"
    _, found = inspect(home, "--without", "device-2", "--write", str(file))
    assert not averaged(plain)[0].norms
    first = sorted(
        (move["length"], move["cosine"])
        for one in found["devices"]
        for move in one["moves"]
        if move["round"] == 1
    )
    wanted = sorted(zip(averaged(light)[0].norms, averaged(light)[0].cosines, strict=True))
    for (length, cosine), (norm, wanted_cosine) in zip(first, wanted, strict=True):
        assert length == norm  # began from the same weights
        assert cosine is not None
        assert abs(cosine - (wanted_cosine or 0.0)) < 0.2, "these weigh by samples, those alike"
    assert [one["round"] for one in found["without"]] == [1, 2]
    assert all(0 < one["apart"] < 2 for one in found["without"])
    assert Digest.of(file.read_bytes()) == found["without"][-1]["weights"]
    result = CliRunner().invoke(
        cli.app, ["inspect", "--home", str(home), "--without", "nobody"], catch_exceptions=False
    )
    assert result.exit_code == 2
    assert "'nobody' is in no round" in result.stderr


def test_rounds_whose_answers_were_deleted_are_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = rounds.round_rules
    monkeypatch.setattr(
        rounds, "round_rules", lambda *of: usual(*of).model_copy(update={"robust": None})
    )
    learned(LightEngine, fleet(devices=2), tmp_path)
    code, found = inspect(tmp_path / "coordinator")
    assert code == 0
    assert found["devices"] == []
    assert (
        "Round 1 is not measured: its answers were deleted; [rounds] retention"
        in (found["unread"][0])
    )


def test_a_longer_answer_is_refused_where_it_is_to_be(tmp_path: Path) -> None:
    scenario = fleet(mean="mean", max_norm=1e-3, beyond="refuse")
    what = prepared(scenario)
    with (
        closing(LightEngine(what, tmp_path, Watching())) as engine,
        pytest.raises(Exception, match=r"answer: moves by .*rounds.robust.max_norm is 0.001"),
    ):
        engine.learn(what.plan.stages[0])

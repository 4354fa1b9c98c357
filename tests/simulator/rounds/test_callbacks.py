"""Callbacks of runs that train in rounds: told of each as it ends, in parts of a run too."""

from __future__ import annotations

from pathlib import Path

import pytest

import fleetledger as fl
from fleetledger.methods.registry import METHODS
from fleetledger.simulator.errors import RunError
from tests.outside import nothing_stays
from tests.simulator.rounds.small import small

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("own_cache")]


@pytest.mark.parametrize("method", ["rounds", "joint"])
def test_each_round_is_told_once_though_the_run_is_cut(tmp_path: Path, method: str) -> None:
    content = small(method={"name": method}, rounds={"per_stage": 2}).model_dump(
        mode="json", exclude_none=True
    )
    told: list[fl.callbacks.RunEvent] = []
    run = None
    for _ in range(8):
        try:
            run = fl.simulate(
                content, output=tmp_path / "run", resume=True, seconds=0, callbacks=[told.append]
            )
            break
        except RunError as error:
            assert "budget" in str(error)  # noqa: PT017 - each part of the run ends so
    assert run is not None
    records = [each for stage in run.results.first.stages for each in stage.rounds]
    rounds = [event for event in told if event.kind == "round"]
    assert [(event.round, event.accuracy) for event in rounds] == [
        (record.number, record.accuracy) for record in records
    ]
    assert [event.step for event in rounds] == list(range(1, len(records) + 1))
    assert [event.kind for event in told].count("done") == 1


def test_a_method_of_one_s_own_is_given_as_an_object(tmp_path: Path) -> None:
    """It need not be decorated; with nothing changed it does what its base does, to the bit."""

    class Mine(fl.methods.Rounds):
        """Federated averaging by another name."""

    content = small(rounds={"per_stage": 1}).model_dump(mode="json", exclude_none=True)
    settings = content["method"]["settings"]
    with nothing_stays(METHODS):
        mine = fl.simulate({**content, "method": Mine(**settings)}, output=tmp_path / "mine")
    theirs = fl.simulate(content, output=tmp_path / "theirs")
    assert mine.scenario["method"]["name"] == "mine"
    assert mine.matrix(1).tolist()[0][0] == theirs.matrix(1).tolist()[0][0]
    heads = [[stage.head for stage in run.results.first.stages] for run in (mine, theirs)]
    assert heads[0] == heads[1]

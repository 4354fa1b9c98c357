"""A run that stops in the middle of a stage of rounds goes on to the same digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run.facts import RunFacts
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.progress import Budget
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario
from tests.simulator.rounds.small import small
from tests.simulator.rounds.whole_runs import quiet

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("own_cache")]


@pytest.mark.parametrize("method", ["rounds", pytest.param("joint", marks=pytest.mark.nightly)])
def test_a_run_with_a_small_budget_gets_to_the_end_round_by_round(
    tmp_path: Path, method: str
) -> None:
    scenario = small(method={"name": method}, rounds={"per_stage": 2})
    whole = run_scenario(scenario, tmp_path / "whole", quiet())
    out = tmp_path / "pieces"
    with pytest.raises(RunError, match=r"budget: 0 s are spent; .* --resume"):
        run_scenario(scenario, out, quiet(), options=RunOptions(Budget(0)))
    assert RunFacts.read(out / "run.json").state == "stopped"
    pieces, ended = 1, None
    while ended is None:
        assert pieces < 6
        try:
            ended = resume_run(out, quiet(), options=RunOptions(Budget(0)))
        except RunError:
            pieces += 1
    assert pieces >= 3
    for one, two in zip(
        RunFolder(tmp_path / "whole").seed(1).records(),
        RunFolder(out).seed(1).records(),
        strict=True,
    ):
        assert (one.aggregate, one.head) == (two.aggregate, two.head)
        assert [(r.number, r.accuracy, r.loss) for r in one.rounds] == [
            (r.number, r.accuracy, r.loss) for r in two.rounds
        ]
    assert ended.seeds[1].stages[-1].accuracy == whole.seeds[1].stages[-1].accuracy

"""Undisturbed fleets of whole programs end with the models and verdicts of simulated agents."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.run.preparation import PreparedSeed
from tests.chaos.material import prepare
from tests.chaos.outcome import FleetOutcome
from tests.chaos.rollout_checks import ends_of
from tests.chaos.runs import run_undisturbed
from tests.chaos.trials import Trials
from tests.simulator.engines.inprocess.small import Quiet, fleet_of, learn_all


@pytest.mark.parametrize(
    "form",
    [
        "exact",
        *(pytest.param(form, marks=pytest.mark.nightly) for form in ("compact", "estimated")),
    ],
)
def test_real_pictures_and_networks_give_the_engine_s_aggregate_and_head(
    tmp_path: Path, form: str
) -> None:
    prepared = fleet_of(tmp_path / "features", form, devices={"count": 3})
    last = learn_all(prepared, tmp_path / "engine")[-1]
    material = prepare(prepared.scenario, tmp_path / "material")
    end = run_undisturbed(material, tmp_path / "fleet")
    assert (end.aggregate, end.head) == (last.aggregate, last.head)
    assert end.class_names == last.model_classes


@pytest.mark.parametrize(
    "number",
    [0, 4, 5, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 2, 3, 6))],
)
def test_a_rollout_ends_as_among_programs(
    rollouts: Trials, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    material, undisturbed = rollouts.prepared(number)
    what = PreparedSeed.load(material.scenario, number).prepare(Quiet())
    with closing(InProcessEngine(what, tmp_path / "run", Quiet())) as engine:
        (record,) = [engine.learn(stage) for stage in what.plan.stages]
        engine.roll_out()
        coordinator = engine._fleet.coordinator
        ends = ends_of(FleetOutcome(coordinator.state, {}), coordinator.engine.ledger)
    assert (record.aggregate, record.head) == (undisturbed.aggregate, undisturbed.head)
    assert ends == undisturbed.rollouts

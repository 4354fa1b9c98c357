"""Whole runs of methods that train: what they answer, and what they leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.run.runs import run_scenario
from tests.simulator.rounds.small import small
from tests.simulator.rounds.whole_runs import check_answers, quiet

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("own_cache")]


def test_the_answers_are_those_of_the_exported_network_run_image_by_image(tmp_path: Path) -> None:
    scenario = small(rounds={"per_stage": 2})
    results = run_scenario(scenario, tmp_path / "run", quiet())
    check_answers(scenario, tmp_path / "run" / "seed-1")
    stage = results.seeds[1].stages[-1]
    assert stage.accuracy == pytest.approx(stage.rounds[-1].accuracy)
    assert (tmp_path / "run" / "rounds.png").is_file()


def test_a_network_of_the_fleets_own_is_frozen_after_the_first_stage(tmp_path: Path) -> None:
    first = {"rounds": 3, "settings": {"network": "mlp", "batch": 8, "rate": 0.1}}
    scenario = small().model_copy(
        update={
            "method": small().method.__class__.model_validate(
                {
                    "name": "stsa",
                    "settings": {"form": "exact", "map_width": 64},
                    "first_stage": first,
                }
            )
        }
    )
    results = run_scenario(scenario, tmp_path / "run", quiet())
    one, two = results.seeds[1].stages
    assert [len(stage.rounds) for stage in (one, two)] == [3, 0]
    assert two.contributions == 6
    assert two.accuracy > 0.7


def test_joint_training_remembers_what_federated_averaging_forgets(tmp_path: Path) -> None:
    ends = {}
    for method in ("rounds", "joint"):
        scenario = small(method={"name": method}, rounds={"per_stage": 4})
        results = run_scenario(scenario, tmp_path / method, quiet())
        ends[method] = results.seeds[1].stages[-1]
    assert ends["joint"].old_accuracy > 0.8
    assert ends["rounds"].old_accuracy < 0.5
    assert ends["joint"].bytes_up.total == 0
    assert ends["rounds"].bytes_up.total > 0

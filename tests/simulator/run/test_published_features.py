"""Fleets in one process whose devices publish features: what they learn, and where they may not."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from tests.simulator.engines.inprocess.small import ByHand, Quiet, fleet_of, learn_all

POOLED = {"name": "pooled", "settings": {"max_samples_per_part": 40}}


def devices(allowed: bool) -> dict:
    return {"count": 5, "policy": {"publish_features": allowed}}


def test_a_fleet_publishes_what_all_its_images_in_one_place_would_give(tmp_path: Path):
    prepared = fleet_of(tmp_path / "cache", method=POOLED, devices=devices(True))
    engine = InProcessEngine(prepared, tmp_path / "run", Quiet())
    for stage in prepared.plan.stages:
        assert engine.learn(stage).aggregate == ByHand(prepared, engine).pooled(stage.number)
    engine.close()


def test_devices_whose_owners_do_not_allow_it_give_nothing(tmp_path: Path):
    prepared = fleet_of(tmp_path / "cache", method=POOLED, devices=devices(False))
    with pytest.raises(EngineError, match="nobody has contributed"):
        learn_all(prepared, tmp_path / "run")


@pytest.mark.parametrize("publish", ["features", "moments"])
def test_a_run_learns_digits_from_what_devices_publish(publish: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    changes = ["method.name=pooled", f"method.settings.publish={publish}"]
    scenario = load_scenario(
        "digits-tiny",
        [*changes, "devices.policy.publish_features=true", "stages.classes=6", "stages.count=3"],
    )
    run_scenario(scenario, tmp_path / "run", Console(file=StringIO(), width=100))
    answers = Answers.load(RunFolder(tmp_path / "run").seed(1).root / "predictions.npz")
    asked = answers.labels < 6
    right = answers.predictions[-1][asked] == answers.labels[asked]
    assert np.mean(right) > (0.95 if publish == "features" else 0.85)

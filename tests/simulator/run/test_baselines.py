"""Baselines of statistics by name: a fleet in one process learns what pooled images teach."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fleetledger.learning.numerics.integer_features import quantise_features
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario


def fleet_answers(method: str, folder: Path) -> tuple[Scenario, Answers]:
    changes = [f"method.name={method}", "method.settings.min_samples_per_class=1"]
    scenario = load_scenario("digits-tiny", [*changes, "stages.classes=6", "stages.count=3"])
    run_scenario(scenario, folder, Console(file=StringIO(), width=100))
    return scenario, Answers.load(RunFolder(folder).seed(1).root / "predictions.npz")


def pooled_answers(scenario: Scenario, method: str) -> np.ndarray:
    """Class means, or ridge regression, of all training images in one place, in float64."""
    split = load_split(scenario.data, seed=1)
    train, test = (
        quantise_features(np.float32(part.images.reshape(len(part), -1) / 255.0)) / 127.0
        for part in (split.train, split.test)
    )
    known = split.train.labels < 6
    H, Y = train[known], np.eye(6)[split.train.labels[known]]
    solution = H.T @ Y
    if method == "fed3r":
        solution = np.linalg.solve(H.T @ H + 0.01 * np.eye(H.shape[1]), solution)
    return (test @ (solution / np.linalg.norm(solution, axis=0))).argmax(axis=1)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("method", ["fedncm", "fed3r"])
def test_a_fleet_answers_as_the_pooled_images_do(method: str, tmp_path: Path):
    scenario, answers = fleet_answers(method, tmp_path / "run")
    asked = answers.labels < 6
    last = answers.predictions[-1][asked]
    assert (last == answers.labels[asked]).mean() > 0.85
    assert (last == pooled_answers(scenario, method)[asked]).mean() > 0.98


def test_a_fleet_learns_with_covariances_from_class_sums(tmp_path: Path):
    _, answers = fleet_answers("fedcof", tmp_path / "run")
    asked = answers.labels < 6
    assert (answers.predictions[-1][asked] == answers.labels[asked]).mean() > 0.85

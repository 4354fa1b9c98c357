"""The page on adding a statistics method, followed literally on a copy of the repository."""

import json
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.metrics.answers import Answers
from tests.docs.following import copy_repository, follow, run
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "methods" / "adding-a-statistics-method.md"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A copy of the repository in which the page has been followed."""
    copy = copy_repository(tmp_path_factory.mktemp("copy"))
    assert len(follow(PAGE, copy)) == 12
    return copy


def test_the_methods_own_tests_and_those_of_all_methods_pass(root: Path):
    files = ("nearest_mean", "test_registry.py", "test_contract.py")
    run(root, "pytest", "-p", "no:cacheprovider", *(f"tests/methods/{file}" for file in files))


def test_the_rules_of_the_house_hold_for_it(root: Path):
    rules = "imports or same_files or docstring"
    run(root, "pytest", "-p", "no:cacheprovider", "-k", rules, "tests/test_architecture.py")
    new = ("methods/nearest_mean", "tests/methods/nearest_mean")
    run(root, "ruff", "check", "--no-cache", *new)
    run(root, "ruff", "format", "--no-cache", "--check", *new)


def pooled_answers() -> np.ndarray:
    """Nearest class means of all training images in one place, in float64."""
    split = load_split(DataSettings(), seed=1)
    train, test = (part.images.reshape(len(part), -1) / 255.0 for part in (split.train, split.test))
    train /= train.max(axis=1, keepdims=True)
    means = np.array([train[split.train.labels == label].mean(axis=0) for label in range(10)])
    return (test @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T).argmax(axis=1)


@pytest.mark.slow
def test_a_fleet_learns_with_it_what_pooled_images_teach(root: Path):
    command = "simulate nearest-mean.toml --out runs/nearest-mean"
    assert f"$ fleetledger {command}\n" in PAGE.read_text(encoding="utf-8")
    run(root, "fleetledger", *command.split())
    seed = root / "runs" / "nearest-mean" / "seed-1"
    answers = Answers.load(seed / "predictions.npz")
    last = answers.predictions[-1]
    assert answers.stages == 5
    assert (last == answers.labels).mean() > 0.88
    assert (last == pooled_answers()).mean() > 0.99
    assert json.loads((seed / "model" / "manifest.json").read_text())["method"] == "nearest_mean"
    verified = run(root, "fleetledger", "ledger", "verify", "--home", str(seed / "coordinator"))
    assert "blobs fit" in verified

"""The page on adding a method that trains, followed literally on a copy of the repository."""

import json
from pathlib import Path

import pytest

from fleetledger.simulator.metrics.answers import Answers
from tests.docs.following import copy_repository, follow, run
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "methods" / "adding-a-training-method.md"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A copy of the repository in which the page has been followed."""
    copy = copy_repository(tmp_path_factory.mktemp("copy"))
    assert len(follow(PAGE, copy)) == 12
    return copy


def test_the_methods_own_tests_and_those_of_all_methods_pass(root: Path):
    files = ("server_momentum", "test_registry.py")
    run(root, "pytest", "-p", "no:cacheprovider", *(f"tests/methods/{file}" for file in files))


@pytest.mark.nightly
def test_the_rules_of_the_house_hold_for_it(root: Path):
    rules = "imports or same_files or docstring"
    run(root, "pytest", "-p", "no:cacheprovider", "-k", rules, "tests/test_architecture.py")
    new = ("methods/server_momentum", "tests/methods/server_momentum")
    run(root, "ruff", "check", "--no-cache", *new)
    run(root, "ruff", "format", "--no-cache", "--check", *new)


@pytest.mark.torch
def test_a_fleet_learns_with_it(root: Path):
    command = "simulate server-momentum.toml --out runs/server-momentum"
    assert f"$ fleetledger {command}\n" in PAGE.read_text(encoding="utf-8")
    run(root, "fleetledger", *command.split())
    seed = root / "runs" / "server-momentum" / "seed-1"
    answers = Answers.load(seed / "predictions.npz")
    assert answers.stages == 2
    newest = answers.stage_of_class[answers.labels] == 2
    assert (answers.predictions[-1] == answers.labels)[newest].mean() > 0.8
    assert json.loads((seed / "model" / "manifest.json").read_text())["method"] == "server_momentum"
    verified = run(root, "fleetledger", "ledger", "verify", "--home", str(seed / "coordinator"))
    assert "blobs fit" in verified

"""Where the broker is required, no test that needs it is skipped unseen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HAS_TORCH

SKIPPED = """
import pytest

@pytest.mark.broker
def test_of_the_broker():
    pytest.skip("{why}")

def test_of_something_else():
    pytest.skip("{why}")
"""


def outcome(folder: Path, why: str, required: str) -> str:
    (folder / "test_skipped.py").write_text(SKIPPED.format(why=why), encoding="utf-8")
    root = Path(__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        root / "pyproject.toml",
    ]
    environment = os.environ | {"FLEETLEDGER_REQUIRE_BROKER": required, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [*command, "-c", root / "pyproject.toml", "--rootdir", folder, folder],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    return run.stdout.splitlines()[-1].partition(" in ")[0]


def test_a_skipped_test_of_the_broker_fails_where_it_is_required(tmp_path: Path):
    assert outcome(tmp_path, "no mosquitto", "1") == "1 failed, 1 skipped"


def test_it_is_skipped_elsewhere(tmp_path: Path):
    assert outcome(tmp_path, "no mosquitto", "0") == "2 skipped"


@pytest.mark.skipif(HAS_TORCH, reason="torch is there")
def test_what_needs_torch_runs_where_torch_is(tmp_path: Path):
    assert outcome(tmp_path, "could not import 'torch'", "1") == "2 skipped"

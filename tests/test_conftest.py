"""No test is skipped unseen: where the broker is required, and where torch is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HAS_TORCH, PROGRAMS

SKIPPED = """
import pytest

@pytest.mark.{program}
def test_of_a_program():
    pytest.skip("{why}")

def test_of_something_else():
    pytest.skip("{why}")
"""

IN_PART = """
import pytest

@pytest.mark.broker
@pytest.mark.torch
def test_with_both():
    import torch
"""
WHOLE = """
import pytest
import torch

pytestmark = [pytest.mark.broker, pytest.mark.torch]

def test_with_both():
    pass
"""


def outcome(folder: Path, why: str, required: str, program: str = "broker") -> str:
    text = SKIPPED.format(why=why, program=program)
    (folder / "test_skipped.py").write_text(text, encoding="utf-8")
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
    variable = f"FLEETLEDGER_REQUIRE_{program.upper()}"
    environment = os.environ | {variable: required, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [*command, "-c", root / "pyproject.toml", "--rootdir", folder, folder],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    return run.stdout.splitlines()[-1].partition(" in ")[0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_skipped_test_of_a_program_fails_where_that_is_required(tmp_path: Path, program: str):
    assert outcome(tmp_path, "it is not there", "1", program) == "1 failed, 1 skipped"


def test_it_is_skipped_elsewhere(tmp_path: Path):
    assert outcome(tmp_path, "no mosquitto", "0") == "2 skipped"


@pytest.mark.skipif(HAS_TORCH, reason="torch is there")
def test_what_needs_torch_runs_where_torch_is(tmp_path: Path):
    (tmp_path / "test_parts.py").write_text(IN_PART, encoding="utf-8")
    (tmp_path / "test_whole.py").write_text(WHOLE, encoding="utf-8")
    assert outcome(tmp_path, "no mosquitto", "1") == "1 failed, 3 skipped"


@pytest.mark.skipif(HAS_TORCH, reason="torch is there")
def test_what_does_not_say_that_it_needs_torch_fails_without(tmp_path: Path):
    (tmp_path / "test_unmarked.py").write_text("import torch", encoding="utf-8")
    assert outcome(tmp_path, "no mosquitto", "0").endswith("1 error")


def test_no_test_decides_for_itself_that_torch_is_lacking():
    asking = re.compile(r"""(importorskip|find_spec)\(\s*["']torch["']""")
    here = Path(__file__).parent
    assert [
        str(path.relative_to(here))
        for path in sorted(here.rglob("test_*.py"))
        if asking.search(path.read_text(encoding="utf-8"))
    ] == []

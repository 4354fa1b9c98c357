"""A test that would begin too late does not run, and its file is told."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.quick.budget import MOST_NAMES, not_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("def test_it(): pass\n")
    return tmp_path


def output(folder: Path, until: float) -> str:
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.quick.budget", f"--until={until}"]
    command = [sys.executable, "-m", "pytest", *options, "-c", str(folder / "pytest.ini"), folder]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_what_would_begin_too_late_is_left_out_and_told(folder: Path) -> None:
    said = output(folder, time.time() - 1)
    assert "1 skipped" in said
    assert "not run" in said
    assert "test_a" in said.partition("not run")[2]


def test_what_begins_in_time_runs(folder: Path) -> None:
    said = output(folder, time.time() + 600)
    assert "1 passed" in said
    assert "not run" not in said


def test_files_are_named_by_folder_while_they_are_few() -> None:
    few = ["tests/b/test_z.py", "tests/a/test_y.py", "tests/a/test_x.py"]
    assert not_run(few).splitlines()[1:] == ["  tests/a/: test_x, test_y", "  tests/b/: test_z"]
    many = [f"tests/a/test_{number}.py" for number in range(MOST_NAMES + 1)]
    assert not_run(many).splitlines()[1:] == [f"  tests/a/: {MOST_NAMES + 1} files"]

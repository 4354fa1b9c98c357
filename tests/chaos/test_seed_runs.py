"""Many seeds: ranges, several processes, the summary and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.checks import Broken
from tests.chaos.errors import ChaosError
from tests.chaos.report import ChaosReport
from tests.chaos.seed_runs import read_range, run_seeds, summarise
from tests.chaos.trials import Trials
from tests.rooms import ROOT


def test_a_range_names_its_first_and_last_seed() -> None:
    assert read_range("0-1999") == range(2000)
    assert read_range("7") == range(7, 8)
    with pytest.raises(ChaosError, match="seeds: '3 to 4' is no range; give the first and the"):
        read_range("3 to 4")


def test_several_processes_find_what_one_finds(tmp_path: Path, trials: Trials) -> None:
    found = list(run_seeds(tmp_path, range(3), 2, Console(quiet=True)))
    assert [report.seed for report in found] == [0, 1, 2]
    assert [report.done for report in found] == [trials.run(seed).done for seed in range(3)]


def test_the_summary_adds_up_and_names_the_seeds_that_broke_a_promise() -> None:
    broken = (Broken("nothing is lost", "part 1"), Broken("nothing is lost", "part 2"))
    reports = [
        ChaosReport(3, "one", {"kills": 2}, (), 100.0, 7.0, 1.0),
        ChaosReport(4, "two", {"kills": 1, "power cuts": 5}, broken, 50.0, 40.4, 2.0),
    ]
    summary = summarise(reports, "the command")
    assert (summary["runs"], summary["failed"]) == (2, 1)
    assert summary["broken"] == {"nothing is lost": [4]}
    assert summary["done"] == {"kills": 3, "power cuts": 5}
    assert (summary["fleet_seconds"], summary["seconds"]) == (150, 3.0)
    assert summary["slowest_seconds"] == 40
    assert summary["command"] == "the command"


def test_the_command_runs_seeds_and_writes_the_summary(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.chaos",
        "--seeds",
        "5",
        "--summary",
        str(tmp_path / "out.json"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out.json").read_text())
    assert json.loads(done.stdout) == summary
    assert (summary["runs"], summary["failed"]) == (1, 0)

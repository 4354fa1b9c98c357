"""`fleetledger simulate` for real: as a process, to its end, killed, and gone on with."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetledger.simulator.metrics.results import RunResults
from tests.simulator.test_cli import ROOT, simulate

SMALL = ["digits-tiny", "--set", "stages.classes=6", "--set", "stages.count=3"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, cache: str) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    done = simulate(*SMALL, "--out", "run", folder=folder, FLEETLEDGER_CACHE=cache)
    assert done.returncode == 0, done.stderr
    assert "report: run/report.html" in done.stdout
    assert done.stderr == ""
    return folder / "run"


def heads(run: Path) -> list[str]:
    lines = (run / "seed-1" / "stages.jsonl").read_text().splitlines()
    return [json.loads(line)["head"] for line in lines]


def test_a_run_ends_with_report_numbers_and_a_model(finished: Path):
    results = RunResults.read(finished)
    assert results.summary["final_accuracy"].mean > 0.8
    assert json.loads((finished / "run.json").read_text())["state"] == "done"
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "A few handwritten digits, three devices" in page
    assert (finished / "seed-1" / "model" / "head.onnx").exists()


def test_its_ledger_verifies(finished: Path):
    home = finished / "seed-1" / "coordinator"
    done = subprocess.run(
        [sys.executable, "-m", "fleetledger", "ledger", "verify", "--home", str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_run_that_was_killed_goes_on_to_the_same_heads(
    finished: Path, tmp_path: Path, cache: str
):
    stages = kill_after(tmp_path, cache, signal.SIGKILL)
    assert 1 <= stages < 3
    done = simulate("--resume", "run", folder=tmp_path, FLEETLEDGER_CACHE=cache)
    assert done.returncode == 0, done.stderr
    assert heads(tmp_path / "run") == heads(finished)


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, cache: str):
    kill_after(tmp_path, cache, signal.SIGINT)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "stopped"
    text = (tmp_path / "errors").read_text()
    assert f"fleetledger simulate --resume {tmp_path / 'run'}" in text
    assert "Traceback" not in text


def test_two_runs_can_be_compared(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "other")
    done = simulate("compare", str(finished), "other", "--out", "both", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "both").iterdir()} == {
        "compare.csv",
        "compare.html",
        "compare.png",
        "intervals.png",
    }


def kill_after(folder: Path, cache: str, number: signal.Signals) -> int:
    """Send a signal to a run after its first stage; return the stages that were finished."""
    with (folder / "errors").open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "fleetledger", "simulate", *SMALL, "--out", "run"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "FLEETLEDGER_CACHE": cache},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        stages, end = folder / "run" / "seed-1" / "stages.jsonl", time.monotonic() + 300
        while not stages.exists():
            assert child.poll() is None, "the run ended"
            assert time.monotonic() < end, "the first stage does not end"
            time.sleep(0.01)
        child.send_signal(number)
        assert child.wait(300) not in (0, None)
    return len(stages.read_text().splitlines())

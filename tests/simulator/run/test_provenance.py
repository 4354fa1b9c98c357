"""Provenance of a run in its record: commit, command, versions, threads and GPU."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.run import provenance
from fleetledger.simulator.run.facts import RunFacts
from fleetledger.simulator.run.runs import run_scenario
from tests.simulator.run.direct_engine import DirectEngine
from tests.simulator.run.test_runs import SCENARIO, quiet


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    done = subprocess.run(
        ["git", *names, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "lab"
    (folder / "deeper").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "method.py").write_text("one = 1\n")
    (folder / ".gitignore").write_text("runs\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    monkeypatch.chdir(folder / "deeper")
    return folder


def mine() -> provenance.SourceState:
    (found,) = (each for each in provenance.sources() if each.name == "lab")
    return found


def test_the_commit_of_the_folder_where_one_stands_is_told_and_whether_it_was_changed(lab: Path):
    commit = git(lab, "rev-parse", "HEAD")
    assert mine() == provenance.SourceState(name="lab", commit=commit, changed=False)
    (lab / "runs").mkdir()
    (lab / "runs" / "ignored").write_text("")
    assert not mine().changed
    (lab / "new.py").write_text("")
    assert mine().changed
    (lab / "new.py").unlink()
    (lab / "method.py").write_text("one = 2\n")
    assert str(mine()) == f"{commit}, changed since"


def test_fleetledger_s_own_checkout_is_told_only_where_git_tracks_it(lab: Path, monkeypatch):
    """Installed into an environment below a checkout, it is no part of that."""
    names = [each.name for each in provenance.sources()]
    assert len(names) == len(set(names))
    installed = lab / "venv" / "fleetledger" / "provenance.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    monkeypatch.setattr(provenance, "_HERE", installed)
    monkeypatch.chdir(lab.parent)
    assert provenance.sources() == ()


def test_without_git_nothing_is_told(lab: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(lab))
    assert provenance.sources() == ()
    assert "gpus" not in provenance.machine()


def test_a_program_that_hangs_or_fails_says_nothing(monkeypatch, tmp_path: Path):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program.write_text("#!/bin/sh\necho 'NVIDIA H, 1.2'; echo 'NVIDIA H, 1.2'\n")
    program.chmod(0o755)
    assert provenance.machine()["gpus"] == "NVIDIA H, 1.2; NVIDIA H, 1.2"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert "gpus" not in provenance.machine()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(provenance, "_SECONDS", 0.05)
    assert "gpus" not in provenance.machine()


def test_versions_are_of_what_computes_and_of_what_adds_to_us(tmp_path: Path, monkeypatch):
    info = tmp_path / "my_lab-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text("[fleetledger.metrics]\nmine = my_lab:mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = provenance.versions()
    assert found["my-lab"] == "3.1"
    assert found["numpy"] == np.__version__
    for package in ("scipy", "torch", "torchvision", "ray"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            version = None
        assert found.get(package) == version


def test_a_run_keeps_it_in_its_record_and_its_results(tmp_path: Path, lab: Path, monkeypatch):
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    results = run_scenario(SCENARIO, tmp_path / "run", quiet(), DirectEngine)
    facts = RunFacts.read(tmp_path / "run" / "run.json")
    (session,) = facts.sessions
    assert session.command == shlex.join(sys.orig_argv)
    assert mine() in session.sources
    told = results.machine
    assert told["command"] == session.command
    assert told["commit of lab"] == mine().commit
    assert told["omp_num_threads"] == "3"
    assert told["blas_threads"] >= 1
    assert facts.machine.items() <= told.items()


@pytest.mark.torch
def test_torch_tells_its_threads_and_cuda():
    import torch

    found = provenance.computing()
    assert found["torch_threads"] == torch.get_num_threads()
    assert found["cuda"] == (torch.version.cuda or "none")
    assert ("gpu" in found) == torch.cuda.is_available()

"""The notebooks of docs run from top to bottom, and are kept without what they printed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetledger.learning.networks.registry import NETWORKS
from fleetledger.methods.registry import METHODS
from fleetledger.simulator.datasets.loading import DATA_SETS
from fleetledger.transport.brokers import find_mosquitto
from tests.outside import nothing_stays
from tests.rooms import ROOT
from tests.simulator.unrendered import unrendered

__all__ = ["unrendered"]

FOLDER = ROOT / "docs" / "notebooks"
APPLICATION = "an_agent_in_an_application.ipynb"


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    return found


def run_notebook(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: dict[str, Any],
    until: str | None = None,
) -> None:
    """Run the cells of code in a folder, in one namespace as a kernel does.

    `until` is in the first cell that is left out. Commands are those of this checkout.
    """
    program = folder / "bin" / "fleetledger"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fleetledger "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)
    names["__name__"] = "notebook"
    sources = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
    with nothing_stays(DATA_SETS, METHODS, NETWORKS):
        for number, source in enumerate(sources):
            if until is not None and until in source:
                return
            exec(compile(source, f"{name}, cell {number}", "exec"), names)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_it_is_kept_without_what_it_printed_and_is_linked(path: Path) -> None:
    code = [cell for cell in cells(path.name) if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for page in ("README.md", "docs/README.md"):
        assert f"notebooks/{path.name}" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.torch
@pytest.mark.nightly  # docs/examples/own_study.py does the same by day
def test_a_method_and_a_network_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    run_notebook("own_method_and_network.ipynb", tmp_path, monkeypatch, names)
    assert names["own"].matrix(seed=1).shape == (2, 2)
    assert "| run | average incremental accuracy |" in capsys.readouterr().out


@pytest.mark.torch
def test_sensor_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    run_notebook("sensor_windows.ipynb", tmp_path, monkeypatch, names)
    assert names["run"].accuracy.mean > 0.4
    assert "'frozen.onnx'" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.skipif(find_mosquitto() is None, reason="needs mosquitto on the PATH")
def test_an_agent_in_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    try:
        run_notebook(APPLICATION, tmp_path, monkeypatch, names)
    finally:
        for each in names.get("programs", ()):
            each.kill()
            each.wait()
    assert names["right"] > 40
    assert re.search(r"\d+ of 50 new pictures are known", capsys.readouterr().out)

"""Where measured runs go: a file for each case, with its table and its pictures beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.fbl_tables.cases import CASES
from benchmarks.papers.fbl_tables.pictures import draw_curves, draw_scenes
from benchmarks.papers.fbl_tables.tables import table
from fleetledger.simulator.metrics.results import FILE_NAME
from fleetledger.simulator.scenario.loading import load_scenario

RESULTS = RESULTS_FOLDER
_MADE_HERE = "digits"
"""The case whose pictures are nobody else's."""


def store(name: str, method: str, found: dict[str, Any]) -> None:
    """Put a run into its case's results, in place of an older one of the same method."""
    path = RESULTS / f"fbl_{name.replace('-', '_')}.json"
    kept = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    machine = {**describe_machine("torch"), "gpu": device, "threads": torch.get_num_threads()}
    case = CASES[name]
    result = {
        "claim": path.stem,
        "scenario": case.scenario,
        "fields": dict(case.fields),
        "machine": machine,
        "runs": {**kept, method: found},
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    text = table(case, load_scenario(case.scenario).published, result)
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def draw(name: str, runs: Path) -> None:
    """Draw what the finished runs of a case say."""
    there = [runs / method for method in CASES[name].methods]
    there = [folder for folder in there if (folder / FILE_NAME).exists()]
    stem = f"fbl_{name.replace('-', '_')}"
    draw_curves(there, RESULTS / f"{stem}.png")
    scenes = runs / "scenes.png"
    draw_scenes(there, scenes)
    if name == _MADE_HERE and scenes.exists():  # pictures of others stay with the runs
        shutil.copy(scenes, RESULTS / f"{stem}_scenes.png")

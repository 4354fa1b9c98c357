"""The network that a fleet trains on the first task, frozen for methods that learn behind one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.papers.footing.changes import as_changes
from benchmarks.papers.from_scratch.cases import SCENARIO, first_task
from benchmarks.run_folders import run_case
from fleetledger.simulator.run.folder import RunFolder


def first_network(
    core: Path, seed: int, rate: float, folder: Path, per_class: int | None = None
) -> Path:
    """Return the ONNX file of the network, its preprocessing beside it; train it if it is missing.

    Raises `SimulatorError` where training does.
    """
    name = f"network-{core.stem}-{seed}-{rate:g}"
    kept = folder / f"{name}.onnx"
    if not kept.exists():
        run = folder / name
        run_case(SCENARIO, first_task(core, seed, rate, per_class), run, report=False)
        model = RunFolder(run).seed(seed).root / "model"
        manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
        told = json.dumps(manifest["preprocessing"])
        kept.with_suffix(".json").write_text(told, encoding="utf-8")
        (model / "frozen.onnx").replace(kept)
        shutil.rmtree(run)
    return kept


def behind(network: Path) -> list[str]:
    """Return what leads a scenario to the network."""
    fields: dict[str, Any] = {"backbone.network": "file", "backbone.file": network}
    return as_changes(fields)

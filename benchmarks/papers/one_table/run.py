"""One table of all methods on one footing: features, devices, rounds, exemplars and bytes.

    FLEETLEDGER_DATA=FOLDER OMP_NUM_THREADS=1 python -m benchmarks.papers.one_table.run
    python -m benchmarks.papers.one_table.run --methods lga,glfc --seeds 1
    python -m benchmarks.papers.one_table.run --minutes 30  # begins no further run after that
    python -m benchmarks.papers.one_table.run --tables  # writes table and picture anew

The folder holds cifar100.npz and mobilenet_v2.safetensors, as for the scenario `cifar100-best`;
torch is needed. Methods come one after the other: first the rate is chosen on training images that
are held out, then come the seeds. The grid of rates grows until its best has tried ones on both
sides, and four were tried. Every run is stored in benchmarks/results/one_table.json when it has
ended, and is run again only if another rate is best since; one that was stopped goes on from its
folder in --runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.footing import cells
from benchmarks.papers.footing.cells import Step
from benchmarks.papers.footing.measuring import measured
from benchmarks.papers.one_table.cases import METHODS, SCENARIO, SEEDS, Method
from benchmarks.papers.one_table.material import Material, make_material
from benchmarks.papers.one_table.plot import draw
from benchmarks.papers.one_table.steps import steps
from benchmarks.papers.one_table.tables import tables
from benchmarks.run_folders import run_case
from fleetledger.simulator.scenario.loading import DATA_VARIABLE, load_scenario

CLAIM = "one_table"
RESULTS = RESULTS_FOLDER / f"{CLAIM}.json"


def main() -> None:
    """Measure and store, run by run."""
    arguments = _arguments()
    if arguments.tables:
        write(arguments.out, cells.read(arguments.out, CLAIM))
        return
    import torch

    torch.set_num_threads(1)
    material = make_material(arguments.core, arguments.runs / "material", SCENARIO)
    ends = time.monotonic() + 60 * arguments.minutes
    for step in steps(arguments.methods, arguments.seeds, lambda: cells.read(arguments.out, CLAIM)):
        if time.monotonic() > ends:
            break
        found = carried_out(step, material, arguments.runs)
        print(step.method, step.key, json.dumps(found), flush=True)
        store(arguments.out, step, found)


def carried_out(step: Step, material: Material, runs: Path) -> dict[str, Any]:
    """Run a step in a folder that goes away afterwards; return its numbers."""
    method = METHODS[step.method]
    rate = {"rate": step.rate} if step.rate else {}
    if method.joint is not None:
        from benchmarks.papers.one_table.joint import measured_jointly

        scenario = load_scenario(SCENARIO, _changes(step, method, material))
        return {**rate, **measured_jointly(scenario, method.joint)}
    folder = runs / step.folder
    found = measured(
        run_case(SCENARIO, _changes(step, method, material), folder, report=False), folder
    )
    shutil.rmtree(folder)
    return {**rate, **found}


def _changes(step: Step, method: Method, material: Material) -> list[str]:
    if step.seed is not None:
        return method.changes(material, step.seed, step.rate)
    assert step.rate is not None, "only rates are tried without a seed of the table"
    return method.tuning_changes(material, step.rate)


def store(path: Path, step: Step, found: Mapping[str, Any]) -> None:
    """Put a run into the results, in place of an older one of the same name."""
    machine = {**describe_machine("numpy", "torch", "onnxruntime"), "threads": 1}
    write(path, {**cells.added(cells.read(path, CLAIM), step, found), "machine": machine})


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write results, table and picture."""
    cells.write(path, results)
    path.with_suffix(".md").write_text(tables(results), encoding="utf-8")
    draw(results, path.with_suffix(".png"))


def _arguments() -> argparse.Namespace:
    data = Path(os.environ.get(DATA_VARIABLE, "."))
    runs = Path(tempfile.gettempdir()) / "one_table"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=_path, default=_path(data / "cifar100.npz"))
    parser.add_argument("--methods", type=names_among(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--runs", type=_path, default=runs)
    parser.add_argument("--out", type=_path, default=RESULTS)
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    return parser.parse_args()


def _path(text: str | Path) -> Path:
    return Path(text).expanduser().absolute()


if __name__ == "__main__":
    main()

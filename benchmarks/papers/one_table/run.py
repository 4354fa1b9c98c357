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

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers.footing.cells import Step
from benchmarks.papers.footing.command import CarriesOut, TableCommand
from benchmarks.papers.footing.markdown import ranked
from benchmarks.papers.footing.measuring import measured
from benchmarks.papers.footing.plot import Curve
from benchmarks.papers.one_table.cases import METHODS, SCENARIO, SEEDS, Method, Sight
from benchmarks.papers.one_table.material import Material, make_material
from benchmarks.papers.one_table.steps import steps
from benchmarks.papers.one_table.tables import tables
from benchmarks.run_folders import run_case
from fleetledger.simulator.scenario.loading import load_scenario


def main() -> None:
    """Measure and store, run by run."""
    arguments = TABLE.arguments(__doc__)

    def prepare() -> CarriesOut:
        material = make_material(arguments.core, arguments.runs / "material", SCENARIO)
        return lambda step, _: carried_out(step, material, arguments.runs)

    TABLE.run(arguments, steps, prepare)


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


_FAMILIES: Mapping[Sight, str] = {
    "statistics": "solved from sums of features, or from all features",
    "features": "trained on features",
    "pictures": "trained on features that are given as pictures",
}


def curves(results: Mapping[str, Any]) -> list[Curve]:
    """Return a line for each row that has runs."""
    return [
        Curve(METHODS[name].title, runs, _FAMILIES[METHODS[name].sight])
        for name, runs in ranked(results["runs"])
    ]


TABLE = TableCommand(
    "one_table",
    METHODS,
    SEEDS,
    ("torch", "onnxruntime"),
    tables,
    curves,
    "stage (ten classes each)",
)


if __name__ == "__main__":
    main()

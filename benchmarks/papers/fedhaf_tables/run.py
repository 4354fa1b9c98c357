"""The tables of FedHAF on CIFAR-100: the method, its ablations, and what stands beside it.

    python -m benchmarks.papers.fedhaf_tables.run --core CORE.npz --backbone NET.onnx
    # only these; minutes
    python -m benchmarks.papers.fedhaf_tables.run --cases full,wo-ce --betas 1.0
    python -m benchmarks.papers.fedhaf_tables.run --cases replay --seed 0 --tasks 5 --set stages=one

Paths can also come from FLEETLEDGER_CIFAR_CORE and FLEETLEDGER_MOBILENET;
benchmarks/papers/simulated_cifar/run.py tells how both files are made. A case whose run folder is
there is gone on with, or only read; all cases are merged into one table. `--set` sets something of
the method beside what the case does, and `--tasks` takes the first so many of the ten; what is
tried on seed 0 stands in a table of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.fedhaf_tables.cases import BETAS, CASES, SCENARIO, Case, Material
from benchmarks.papers.fedhaf_tables.measuring import measured
from benchmarks.papers.fedhaf_tables.sizes import CLASSES, trained_numbers, whole_networks
from benchmarks.papers.fedhaf_tables.tables import tables
from benchmarks.run_folders import run_case
from fleetledger.learning.numerics.blas import platform_fingerprint

RESULTS = RESULTS_FOLDER / "fedhaf_tables.json"
TASKS = 10
SEARCHED_SEED = 0
"""What is tried on it stands in a table of its own."""
_OF_STATISTICS = ("stsa", "fedncm", "fedcof")


def main() -> None:
    """Measure, print and store, case by case."""
    arguments = _arguments()
    material = Material(arguments.core, arguments.backbone)
    facts = {
        "claim": "fedhaf_tables",
        "machine": machine(),
        "networks": whole_networks(arguments.backbone),
    }
    for beta in arguments.betas:
        for name in arguments.cases:
            case, told = CASES[name], [f"{name}, beta {beta:g}, seed {arguments.seed}"]
            if arguments.tasks < TASKS:
                told.append(f"{arguments.tasks} tasks")
            key = ", ".join([*told, *arguments.settings])
            folder = arguments.runs / key.replace(", ", "-").replace(" ", "-")
            changes = [
                *case.changes(),
                *(f"method.settings.{setting}" for setting in arguments.settings),
                *material.changes(),
                *_shared(case, beta, arguments.seed, arguments.tasks),
            ]
            found = measured(run_case(SCENARIO, changes, folder), folder)
            if case.method not in _OF_STATISTICS and not arguments.settings:
                found["parameters"] = trained_numbers(case)
            if arguments.seed == SEARCHED_SEED:
                found["search"] = ", ".join([name, *arguments.settings])
            print(key, json.dumps(found), flush=True)
            store(arguments.out, {key: {"case": name, "beta": beta, **found}}, facts)


def store(path: Path, found: dict[str, Any], facts: dict[str, Any]) -> None:
    """Put runs into the results, in place of older ones of the same names."""
    result = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": {}}
    result = {**facts, "runs": {**result["runs"], **found}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(tables(result), encoding="utf-8")


def machine() -> dict[str, Any]:
    """Describe where this runs."""
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    here = describe_machine("onnxruntime", "torch")
    return {**platform_fingerprint(), **here, "threads": threads}


def _shared(case: Case, beta: float, seed: int, tasks: int) -> list[str]:
    """Return what all cases change in the scenario."""
    return [
        f"seeds=[{seed}]",
        f"stages.classes={CLASSES * tasks // TASKS}",
        f"stages.count={tasks}",
        f"devices.partition.beta={beta}",
        "evaluation.every_rounds=10",
    ]


def _arguments() -> argparse.Namespace:
    def path(name: str) -> Path:
        return Path(os.environ.get(name, "missing")).expanduser().absolute()

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=Path, default=path("FLEETLEDGER_CIFAR_CORE"))
    parser.add_argument("--backbone", type=Path, default=path("FLEETLEDGER_MOBILENET"))
    parser.add_argument("--cases", type=names_among(CASES), default=list(CASES))
    parser.add_argument("--betas", type=float, nargs="+", default=list(BETAS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--set", nargs="*", default=[], metavar="SETTING=VALUE", dest="settings")
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "fedhaf_tables")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

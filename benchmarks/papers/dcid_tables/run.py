"""The tables of DCID: eight combinations, baselines, two further learners, and skewed sites.

    python -m benchmarks.papers.dcid_tables.run --core CORE.npz
    python -m benchmarks.papers.dcid_tables.run --data digits --cases icarl-basic,icarl-dcid
    python -m benchmarks.papers.dcid_tables.run --data cifar --core CORE.npz --set distil_epochs=20

CORE is the first of CIFAR-100's three packs as an .npz file, which docs/datasets.md tells how to
make; FLEETLEDGER_CIFAR_CORE may name it. A case whose run folder is there is gone on with, or only
read. Everything is merged into benchmarks/results/dcid_tables.json, and the tables and the picture
of the skewed sites beside it are made anew. `--set` tries something beside what the case sets: then
numbers are printed, and nothing is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.dcid_tables.cases import CASES, SCENARIOS, SKEWED, Data
from benchmarks.papers.dcid_tables.measuring import measured
from benchmarks.papers.dcid_tables.tables import tables
from benchmarks.run_folders import run_case
from fleetledger.simulator.metrics.results import FILE_NAME
from fleetledger.simulator.report.comparison import compare

RESULTS = RESULTS_FOLDER / "dcid_tables.json"
PICTURE = RESULTS.with_name("dcid_skew.png")


def main() -> None:
    """Measure, print and store, case by case."""
    arguments = _arguments()
    for data in arguments.data:
        for name in arguments.cases:
            if data in CASES[name].data:
                _run(arguments, cast(Data, data), name)
    _compare(arguments.runs)


def _run(arguments: argparse.Namespace, data: Data, name: str) -> None:
    tried = "".join(f"-{change}" for change in arguments.settings)
    folder = arguments.runs / f"{data}{tried}" / name
    changes = [
        *CASES[name].changes(data, arguments.core),
        *(f"method.settings.{change}" for change in arguments.settings),
        *([f"seeds={arguments.seeds}"] if arguments.seeds else []),
    ]
    folder.parent.mkdir(parents=True, exist_ok=True)
    found = measured(run_case(SCENARIOS[data], changes, folder), folder)
    print(f"{data}{tried}/{name}", json.dumps(found), flush=True)
    if not tried and not arguments.seeds:
        store({f"{data}/{name}": {"case": name, **found}})


def store(found: dict[str, Any]) -> None:
    """Put runs into the results, in place of older ones of the same names."""
    kept = json.loads(RESULTS.read_text("utf-8"))["runs"] if RESULTS.exists() else {}
    machine = {**describe_machine("torch"), "threads": torch.get_num_threads()}
    result = {"claim": "dcid_tables", "machine": machine, "runs": {**kept, **found}}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    # As it is read again: seeds are texts there.
    text = tables(json.loads(RESULTS.read_text("utf-8")))
    RESULTS.with_suffix(".md").write_text(text, encoding="utf-8")


def _compare(runs: Path) -> None:
    """Draw the skewed sites that were run in one picture."""
    folders = [runs / "cifar" / name for name in SKEWED]
    there = [folder for folder in folders if (folder / FILE_NAME).exists()]
    if len(there) > 1:
        with tempfile.TemporaryDirectory() as scratch:
            compare(*there).write(Path(scratch))
            shutil.copy(Path(scratch, "compare.png"), PICTURE)


def _arguments() -> argparse.Namespace:
    core = os.environ.get("FLEETLEDGER_CIFAR_CORE")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=_path, default=core and _path(core))
    parser.add_argument("--data", type=names_among(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--cases", type=names_among(CASES), default=list(CASES))
    parser.add_argument("--seeds", type=json.loads, default=[], help="such as [1]: nothing stored")
    parser.add_argument("--set", nargs="*", default=[], metavar="SETTING=VALUE", dest="settings")
    parser.add_argument("--runs", type=_path, default=Path(tempfile.gettempdir(), "dcid_tables"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return arguments


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


if __name__ == "__main__":
    main()

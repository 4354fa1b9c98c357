"""The tables of FBL: ablations and rivals, task after task.

    python -m benchmarks.papers.fbl_tables.run --cases digits
    python -m benchmarks.papers.fbl_tables.run --cases camvid --data camvid.npz \
        --trunk mobilenet_v2.pth
    python -m benchmarks.papers.fbl_tables.run --cases voc-15-1 --data VOC --trunk resnet101.pth

Each method is a run in a folder of its own below `--runs`, which is gone on with, or only read,
when it is there. What comes of it is merged into benchmarks/results/fbl_*.json, and table and
pictures beside it are made anew. `--set` tries something beside what the case sets: then numbers
are printed, and nothing is stored.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch

from benchmarks.arguments import names_among
from benchmarks.papers.fbl_tables.cases import CASES, METHODS
from benchmarks.papers.fbl_tables.measuring import measured
from benchmarks.papers.fbl_tables.results import draw, store
from benchmarks.run_folders import run_case


def main() -> None:
    """Measure, print and store, method by method."""
    arguments = _arguments()
    for name in arguments.cases:
        for method in arguments.methods:
            if method in CASES[name].methods:
                _run(arguments, name, method)
        if not arguments.settings:
            draw(name, arguments.runs / name)


def _run(arguments: argparse.Namespace, name: str, method: str) -> None:
    case = CASES[name]
    tried = "".join(f"-{change}" for change in arguments.settings)
    folder = arguments.runs / f"{name}{tried}" / method
    folder.parent.mkdir(parents=True, exist_ok=True)
    changes = [*case.changes(method, arguments.data, arguments.trunk), *arguments.settings]
    found = measured(run_case(case.scenario, changes, folder), folder)
    print(f"{name}{tried}/{method}", json.dumps(found), flush=True)
    if not tried:
        store(name, method, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=names_among(CASES), required=True)
    parser.add_argument("--methods", type=names_among(METHODS), default=list(METHODS))
    parser.add_argument("--data", type=_path, help="folder of the data set, or a pack of CamVid")
    parser.add_argument("--trunk", type=_path, help="weights of the trunk, trained on ImageNet")
    parser.add_argument("--runs", type=_path, default=Path(tempfile.gettempdir(), "fbl_tables"))
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", dest="settings")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    return arguments


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


if __name__ == "__main__":
    main()

r"""Poisoned fleets of 40 devices: what intake, bounds and inspection find, and what is left.

    python -m benchmarks.papers.inspection.run --shares 0 0.15      # digits alone
    python -m benchmarks.papers.inspection.run                      # digits at all shares
    python -m benchmarks.papers.inspection.run --core CORE.npz --weights mobilenet_v2.safetensors

`CORE.npz` is CIFAR-100's core as `benchmarks.papers.packs.to_npz` writes it; FLEETLEDGER_CIFAR_CORE
and FLEETLEDGER_MOBILENET_WEIGHTS may name both files. A cell takes seconds, one of crafted samples
a quarter of a minute; each is stored when it is done, and one that is stored is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.inspection.cells import NAMES, NONE, SHARES, measured
from benchmarks.papers.inspection.fleet import Fleet
from benchmarks.papers.inspection.pictures import Pictures, cifar, digits
from benchmarks.papers.inspection.tables import tables
from fleetledger.learning.numerics.blas import one_blas_thread, platform_fingerprint

RESULTS = RESULTS_FOLDER / "inspection.json"
WIDTH = 600
BETAS = (1.0, 0.3)
SEEDS = (1, 2, 3)


def key_of(data: str, fleet: Fleet, attack: str, share: float) -> str:
    """Return the name of a cell among the results."""
    form = f"{data}, {fleet.form}, Dirichlet {fleet.beta}, seed {fleet.seed}"
    return f"{form}, {attack}, {round(100 * share)} %"


def cells(shares: list[float], attacks: list[str]) -> Iterator[tuple[str, float]]:
    """Yield attacks with their shares; without any attack there is one cell."""
    if 0 in shares:
        yield NONE, 0.0
    for share in shares:
        if share:
            yield from ((attack, share) for attack in attacks)


def study(data: str, pictures: Pictures, options: argparse.Namespace) -> None:
    """Measure what is not stored yet, and store each cell."""
    for share_of_them in ([0.0, 0.15], [0.4], [0.3], [0.05]):
        shares = [share for share in share_of_them if share in options.shares]
        for seed in options.seeds:
            for beta in BETAS:
                fleet = Fleet(pictures, beta, seed, options.form)
                for attack, share in cells(shares, options.attacks):
                    key = key_of(data, fleet, attack, share)
                    if key in stored(options.out):
                        continue
                    found = measured(fleet, attack, share)
                    store(options.out, key, found)
                    print(key, json.dumps(found), flush=True)


def stored(path: Path) -> dict[str, Any]:
    """Return the cells that are stored."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["cells"] if path.exists() else {}
    return found


def store(path: Path, key: str, found: dict[str, Any]) -> None:
    """Put a cell into the results, one to a line."""
    cells = {**stored(path), key: found}
    machine = {**describe_machine("numpy", "onnxruntime"), **platform_fingerprint()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in cells.items())
    about = f'"claim": "inspection", "columns": {WIDTH}, "machine": {json.dumps(machine)}'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{{about},\n"cells": {{\n{lines}\n}}}}\n', encoding="utf-8")
    path.with_suffix(".md").write_text(tables(cells), encoding="utf-8")


def main() -> None:
    """Measure, print and store."""
    options = _arguments()
    with one_blas_thread():
        if "digits" in options.sets:
            study("digits", digits(WIDTH), options)
        if "cifar" not in options.sets:
            return
        if not (options.core and options.weights):
            print("CIFAR-100: not measured; give --core and --weights")
            return
        study("CIFAR-100", cifar(options.core, options.weights, WIDTH), options)


def _arguments() -> argparse.Namespace:
    def path(variable: str) -> Path | None:
        return Path(os.environ[variable]) if variable in os.environ else None

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--sets", nargs="+", choices=("digits", "cifar"), default=("digits", "cifar")
    )
    parser.add_argument("--core", type=Path, default=path("FLEETLEDGER_CIFAR_CORE"))
    parser.add_argument("--weights", type=Path, default=path("FLEETLEDGER_MOBILENET_WEIGHTS"))
    parser.add_argument("--form", choices=("exact", "compact"), default="compact")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, *SHARES])
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--attacks", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""The simulator's claims on CIFAR-100: a fleet of five learns 100 classes in ten stages.

    1. In process, Dirichlet 0.1, compact form, M = 5000: at least 58.5 % after the last stage, and
       within 0.2 points of float64 ridge regression on the pooled features.
    2. STSA-E, the estimated form with 50 groups (dummies) per device: within 2 points of that.
    3. The features once in the cache, the ten stages take less than 60 s on two cores.
    4. At Dirichlet 0.1, 0.5 and IID the exact form has one aggregate digest and one accuracy to the
       last digit, in ten stages or in one; the compact form stays within 0.1 points.
    5. With 1,000 samples per device and stage the compact form at 10 bits sends at most 0.06 of the
       bytes of the paper's Table 5, at an accuracy within 0.2 points of the exact form's.
    6. `cifar100-best` ends at 62.0 % at least with at most 0.06 of the bytes of Table 5, with one
       digest for every partition; on all of CIFAR-100 at 64 %, and at 67 % at 160 pixels.

    python -m benchmarks.papers.simulated_cifar.run --core CORE.npz --whole ALL.npz \
        --backbone NET.onnx
    python -m benchmarks.papers.simulated_cifar.run --cases time compact      # only these; minutes

Paths can also come from FLEETLEDGER_CIFAR_CORE, FLEETLEDGER_CIFAR_WHOLE, FLEETLEDGER_MOBILENET and,
for the runs called `best`, from FLEETLEDGER_MOBILENET_WEIGHTS (--weights, a safetensors file).
docs/datasets.md tells what lies in the files:

    python -m benchmarks.papers.packs.to_npz cifar100_core.npz --names fine_names --out CORE.npz
    python -m benchmarks.papers.packs.to_npz cifar100_core.npz cifar100_rest_a.npz \
        cifar100_rest_b.npz \
        --names fine_names --out ALL.npz
    python -m benchmarks.papers.networks.mobilenet_v2 --size 112 \
        --weights mobilenet_v2.safetensors \
        --out NET.onnx

The core has 200 training and 50 test images per class. The exact form leaves some gigabytes in the
scratch folder until a case is done. A case that is measured again replaces what was stored of it;
results/simulated_cifar.json holds everything, results/simulated_cifar.md the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.simulated_cifar.cases import BEST, CASES, Material
from benchmarks.papers.simulated_cifar.measuring import measure
from benchmarks.papers.simulated_cifar.tables import tables
from fleetledger.learning.numerics.blas import platform_fingerprint

RESULTS = RESULTS_FOLDER / "simulated_cifar.json"


def store(path: Path, name: str, seed: int, measured: dict[str, Any]) -> None:
    """Put one run into the results, in place of an older one of the same case and seed."""
    result = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": {}}
    first, here = result.get("machine", machine()), machine()
    there = {} if first == here else {"machine": here}
    runs = {**result["runs"], f"{name}, seed {seed}": measured | there}
    result = {"claim": "simulated_cifar", "machine": first, "runs": runs}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(tables(result), encoding="utf-8")


def machine() -> dict[str, Any]:
    """Describe where this runs."""
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    here = describe_machine("onnxruntime", "threadpoolctl")
    return {**platform_fingerprint(), **here, "blas_threads_outside_the_solve": threads}


def missing(material: Material, cases: list[str]) -> list[str]:
    """Return which files of the cases are not there."""
    wholes = {CASES[name].whole for name in cases}
    best = {CASES[name].protocol == BEST for name in cases}
    needed = {
        **({"--backbone (FLEETLEDGER_MOBILENET)": material.backbone} if False in best else {}),
        **({"--weights (FLEETLEDGER_MOBILENET_WEIGHTS)": material.weights} if True in best else {}),
        **({"--whole (FLEETLEDGER_CIFAR_WHOLE)": material.whole} if True in wholes else {}),
        **({"--core (FLEETLEDGER_CIFAR_CORE)": material.core} if False in wholes else {}),
    }
    return [f"{name}: {path}" for name, path in needed.items() if not path.is_file()]


def main() -> None:
    """Measure, print and store, case by case."""
    arguments = _arguments()
    material = Material(arguments.core, arguments.whole, arguments.backbone, arguments.weights)
    gaps = missing(material, arguments.cases)
    if gaps:
        print(f"skipped, not there: {'; '.join(gaps)}\n\n{__doc__}", file=sys.stderr)
        return
    for seed in arguments.seeds:
        for name in arguments.cases:
            print(f"== {name}, seed {seed}", flush=True)
            measured = measure(name, material, seed, arguments.scratch)
            store(arguments.out, name, seed, measured)
            print(json.dumps(measured), flush=True)


def _arguments() -> argparse.Namespace:
    def path(name: str) -> Path:
        return Path(os.environ.get(name, "missing")).expanduser().absolute()

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=Path, default=path("FLEETLEDGER_CIFAR_CORE"))
    parser.add_argument("--whole", type=Path, default=path("FLEETLEDGER_CIFAR_WHOLE"))
    parser.add_argument("--backbone", type=Path, default=path("FLEETLEDGER_MOBILENET"))
    parser.add_argument("--weights", type=Path, default=path("FLEETLEDGER_MOBILENET_WEIGHTS"))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--scratch", type=Path, help="folder for runs; left out, the system's")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Which ridge the sums choose, and a search on held-out samples, beside the default and the best.

    python -m benchmarks.papers.ridge_search.run                          # digits: seconds
    python -m benchmarks.papers.ridge_search.run features.npz  # and the file, as in stsa_forms
    python -m benchmarks.papers.ridge_search.run text.npz --columns 512  # several files are allowed

`ridge = "from-sums"` needs nothing but the fleet's sums. The search on held-out samples is a study
on pooled samples: no fleet can do it, because nobody in it holds samples of all devices. Nor can
anybody know the best ridge on the test samples, which both are compared with.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.ridge_search.search import search_ridge
from benchmarks.papers.stsa_forms.fleet import Data, features
from benchmarks.papers.stsa_forms.run import digits, read
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.numerics.ridge_choice import RIDGES
from fleetledger.methods.stsa.coordinator import COORDINATOR

RESULTS = RESULTS_FOLDER / "ridge_search.json"
POWERS = range(-8, 9)
SIZES = (2000, 5000)
"""Samples that are learned from, beside all of them."""


def study(data: Data, samples: int, columns: int) -> dict[str, Any]:
    """Choose from the first samples in a random order, then test with all of them."""
    settings = {"map_width": columns, "ridge": "from-sums"}
    told = COORDINATOR.assign(settings, data.train_f.shape[1])
    from_sums = told.settings
    rows = np.random.default_rng(0).permutation(len(data.train_y))[:samples]
    h, classes = features(told, data.train_f[rows]), data.train_y[rows]
    unit = told.settings.largest**2
    found = search_ridge(h, classes, [unit * 10.0**power for power in POWERS])
    accurate = max(found.tried, key=lambda one: one.accuracy)
    default = told.settings.ridge_value
    H, test = h.astype(np.float64), features(told, data.test_f).astype(np.float64)
    gram, sums = H.T @ H, H.T @ np.eye(data.classes)[classes]

    def accuracy(ridge: float) -> float:
        predicted = (test @ solve_ridge(gram, sums, ridge)).argmax(axis=1)
        return round(100 * float((predicted == data.test_y).mean()), 2)

    tried = {unit * ridge: accuracy(unit * ridge) for ridge in RIDGES}
    chosen = {
        "default": default,
        "from sums": from_sums.ridge_for(gram, sums, np.bincount(classes, minlength=data.classes)),
        "least error": found.best.ridge,
        "most right": accurate.ridge,
        "best on the test": max(tried, key=lambda ridge: tried[ridge]),
    }
    return {
        "machine": {"python": platform.python_version(), **platform_fingerprint()},
        "samples": len(rows),
        "columns": columns,
        "in_units": {name: float(f"{ridge / unit:.3g}") for name, ridge in chosen.items()},
        "test_accuracy": {name: accuracy(ridge) for name, ridge in chosen.items()},
        "held_out": [
            {
                "ridge_in_units": float(f"{one.ridge / unit:.3g}"),
                "error": float(f"{one.error:.4g}"),
                "accuracy": round(100 * one.accuracy, 2),
            }
            for one in found.tried
        ],
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("features", type=Path, nargs="*")
    parser.add_argument("--columns", type=int, default=1250, help="M, the width of the map")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = {"digits": [study(digits(), 10**9, options.columns)]}
    if not options.features:
        print("no file of features is given; only the digits are searched", file=sys.stderr)
    for path in options.features:
        data = read(path)
        number = len(data.train_y)
        sizes = (*(size for size in SIZES if size < number / 2), number)
        found[data.name] = [study(data, size, options.columns) for size in sizes]
    for name, studies in found.items():
        for one in studies:
            print(name, {key: one[key] for key in ("samples", "in_units", "test_accuracy")})
    stored = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    result = {"claim": "ridge_search", "sets": {**stored.get("sets", {}), **found}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

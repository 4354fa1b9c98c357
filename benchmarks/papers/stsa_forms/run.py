"""Bytes and accuracy of every form of STSA: a fleet learns digits, and features from a file.

    python -m benchmarks.papers.stsa_forms.run                          # digits: 30 s
    python -m benchmarks.papers.stsa_forms.run features.npz             # and the file: minutes
    python -m benchmarks.papers.stsa_forms.run features.npz --columns 5000

The file holds `train_f`, `test_f` (backbone features, float32, n x d) and `train_y`, `test_y`
(classes from 0), as `benchmarks.papers.packs.extract_features` writes them. Five devices learn ten
stages of equal size (digits: five), shares of every class drawn from Dirichlet(0.5), dealt anew in
every stage.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.stsa_forms.fleet import Data, Fleet, run
from fleetledger.learning.numerics.blas import one_blas_thread, platform_fingerprint
from fleetledger.simulator.datasets.digits import split_digits

RESULTS = RESULTS_FOLDER / "stsa_forms.json"
ESTIMATED = {"form": "estimated"}
RELEASED = {"split": "shuffled", "group_minimum": 1, "count_all_clients": True}
CASES: dict[str, dict[str, Any]] = {
    "exact": {"form": "exact"},
    "exact, noise": {"form": "exact", "noise": "sums"},
    "compact, 8 bits": {"form": "compact", "compact_bits": 8},
    "compact, 10 bits": {"form": "compact", "compact_bits": 10},
    "compact, 15 bits": {"form": "compact", "compact_bits": 15},
    "estimated, 1 group": {**ESTIMATED, "groups": 1},
    "estimated, 10 groups": {**ESTIMATED, "groups": 10},
    "estimated, 10 groups, noise": {**ESTIMATED, "groups": 10, "noise": "both"},
    "estimated, 10 groups, all counted": {**ESTIMATED, "groups": 10, "count_all_clients": True},
    "estimated, 10 groups, as published": {**ESTIMATED, "groups": 10, **RELEASED},
    "estimated, 50 groups": {**ESTIMATED, "groups": 50},
    "estimated, 50 groups, as published": {**ESTIMATED, "groups": 50, **RELEASED},
}
HEADS = ("linear", "cosine")


def published_bytes(case: str, columns: int, fleet: Fleet, classes: int) -> int:
    """Return what the published program sends per device: float32, G as a square."""
    per_stage = classes // fleet.stages
    if case.startswith("estimated"):
        groups = int(CASES[case]["groups"])
        return fleet.stages * groups * per_stage * columns * 4
    return fleet.stages * (columns**2 + columns * per_stage) * 4


def digits() -> Data:
    """Return the digits' pixels as features."""
    split = split_digits(seed=0)
    parts = [split.train, split.test]
    values = [
        (part.images.reshape(len(part.labels), -1) / 255).astype(np.float32) for part in parts
    ]
    return Data("digits", values[0], split.train.labels, values[1], split.test.labels)


def read(path: Path) -> Data:
    """Return the features in a file; labels become int64."""
    with np.load(path) as file:
        found = {name: file[name] for name in ("train_f", "train_y", "test_f", "test_y")}
    return Data(
        path.stem,
        found["train_f"].astype(np.float32),
        found["train_y"].astype(np.int64),
        found["test_f"].astype(np.float32),
        found["test_y"].astype(np.int64),
    )


def measure(data: Data, fleet: Fleet, columns: int, cases: list[str], seeds: int) -> dict[str, Any]:
    """Run all cases on one data set under several divisions of the data, and print each."""
    print(f"{data.name}: {len(data.train_y)} samples, {data.classes} classes, M = {columns}")
    measured = {}
    for case in cases:
        settings = {"map_width": columns, **CASES[case]}
        with one_blas_thread():
            runs = [run(data, replace(fleet, seed=s), settings, HEADS) for s in range(seeds)]
        measured[case] = {name: [one[name] for one in runs] for name in runs[0]}
        measured[case]["published_bytes"] = published_bytes(case, columns, fleet, data.classes)
        print(f"  {case}: {json.dumps(measured[case])}", flush=True)
    return {
        "machine": {"python": platform.python_version(), **platform_fingerprint()},
        "samples": len(data.train_y),
        "columns": columns,
        **asdict(fleet),
        "cases": measured,
    }


def sets(path: Path | None) -> Iterator[tuple[Data, Fleet]]:
    """Yield what can be measured here."""
    yield digits(), Fleet(devices=5, stages=5, beta=0.5)
    if path is None:
        print("no file of features was given; only the digits are measured", file=sys.stderr)
    elif not path.exists():
        print(f"{path}: is not there; only the digits are measured", file=sys.stderr)
    else:
        yield read(path), Fleet(devices=5, stages=10, beta=0.5)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("features", type=Path, nargs="?")
    parser.add_argument("--columns", type=int, default=1250, help="M, the width of the map")
    parser.add_argument("--seeds", type=int, default=3, help="divisions of the data over devices")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = {
        f"{data.name}, M = {options.columns}": measure(
            data, fleet, options.columns, options.cases, options.seeds
        )
        for data, fleet in sets(options.features)
    }
    stored = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    result = {"claim": "stsa_forms", "sets": {**stored.get("sets", {}), **found}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

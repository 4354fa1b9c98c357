"""Measure what a device does with its features against the matrix product at the heart of it.

In every round each side takes the same integer features H (n x M, float32), in rotating order, on
one BLAS thread:

    product   H^T H in float32 by BLAS: the floor, rounded and not exact beyond 2^24
    sums      exact Gram triangle and class sums, as int64
    exact     features and labels to the payload of form exact
    compact   features and labels to the payload of form compact
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.travelling import travelling_bytes
from fleetledger.learning.numerics.blas import one_blas_thread, platform_fingerprint
from fleetledger.learning.numerics.gram import class_sums, gram_triangle
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.messages import StsaAssignment

RESULTS = RESULTS_FOLDER / "device_statistics.json"
FEATURE_WIDTH = 1280
CLASSES = 10
SIDES = ("product", "sums", "exact", "compact")
Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """One shape of features, measured `rounds` times."""

    samples: int
    columns: int
    rounds: int


CASES = (Case(130, 1250, 40), Case(1000, 1250, 30), Case(10_000, 1250, 6), Case(1000, 5000, 5))


def make_features(told: StsaAssignment, samples: int) -> Features:
    """Return integer features h of random backbone features."""
    backbone = np.random.default_rng(0).normal(size=(samples, FEATURE_WIDTH)).astype(np.float32)
    matrix = frozen_map(told)
    assert matrix is not None
    quantised = quantise_features(np.abs(backbone))
    return project_integer(quantised, matrix.astype(np.int8), 7).astype(np.float32)


def sides(case: Case) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """Return what each side runs, and the bytes of each payload as it travels."""
    common = {"map_width": case.columns, "max_samples_per_part": 10_000}
    exact = COORDINATOR.assign({**common, "form": "exact"}, FEATURE_WIDTH)
    compact = COORDINATOR.assign({**common, "form": "compact"}, FEATURE_WIDTH)
    H = make_features(exact, case.samples)
    classes = np.arange(case.samples) % CLASSES
    labels = [f"class {index}" for index in classes]

    def exact_sums() -> None:
        gram_triangle(H, exact.settings.largest)
        class_sums(H, classes, CLASSES)

    runs: dict[str, Callable[[], object]] = {
        "product": lambda: H.T @ H,
        "sums": exact_sums,
        "exact": lambda: DEVICE.finish(exact, H, labels),
        "compact": lambda: DEVICE.finish(compact, H, labels),
    }
    sizes = {
        "exact": travelling_bytes(DEVICE.finish(exact, H, labels).payload),
        "compact": travelling_bytes(DEVICE.finish(compact, H, labels).payload),
    }
    return runs, sizes


def measure(case: Case) -> dict[str, Any]:
    """Return medians and ranges of one case."""
    runs, sizes = sides(case)
    rounds: list[dict[str, float]] = []
    with one_blas_thread():
        for side in SIDES:
            runs[side]()
        for number in range(case.rounds):
            order = SIDES[number % len(SIDES) :] + SIDES[: number % len(SIDES)]
            rounds.append({side: seconds(runs[side]) for side in order})
    flops = case.samples * case.columns * (case.columns + 1)
    product = [flops / taken["product"] / 1e9 for taken in rounds]
    ratios = {
        f"{side}/product": summary([taken[side] / taken["product"] for taken in rounds])
        for side in SIDES[1:]
    }
    return {
        "samples": case.samples,
        "columns": case.columns,
        "n": case.rounds,
        "milliseconds": {s: summary([1e3 * taken[s] for taken in rounds]) for s in SIDES},
        "ratio": ratios,
        "product_gflops": summary(product),
        "payload_bytes": sizes | {"published": 4 * case.columns * (case.columns + CLASSES)},
    }


def seconds(run: Callable[[], object]) -> float:
    """Return how long `run` takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return median and range, to four digits."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    cases = []
    for case in CASES:
        cases.append(measure(case))
        print(json.dumps(cases[-1]))
    result = {
        "claim": "device_statistics",
        "machine": {**describe_machine("zstandard"), **platform_fingerprint()},
        "cases": cases,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

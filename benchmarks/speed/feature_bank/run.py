"""Measure the simulator's feature bank against ONNX Runtime and BLAS alone.

In every round, in rotating order, on all cores:

    network   MobileNetV2 at 112 pixels on preprocessed pictures, eight at a time: the floor
    extract   opening a bank on an empty cache: digests, preprocessing, network, writing
    again     opening it once more
    product   q R in float32 by BLAS for M = 5000: the floor of the projection
    project   rows of h from the bank: reading f, quantising, product, rounding
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import MapKind, build_frozen
from fleetledger.export.mobilenet_v2 import (
    WIDTH,
    build_mobilenet_v2,
    imagenet_preprocessing,
    random_weights,
)
from fleetledger.learning.numerics.counter_generator import integer_map
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.datasets import LabelledImages, Split
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.extraction import AGENT_BATCH, cores
from fleetledger.simulator.features.interface import FrozenModel
from fleetledger.simulator.records import RoundRecord

RESULTS = RESULTS_FOLDER / "feature_bank.json"
SIDE, SIZE, COLUMNS = 32, 112, 5000
PICTURES = 4000
SIDES = ("network", "extract", "again", "product", "project")
BACKBONE = Backbone(
    "mobilenet_v2", build_mobilenet_v2(SIZE, random_weights()), imagenet_preprocessing(SIZE)
)


class Spent(NamedTuple):
    """Seconds by the clock, and by the cores that this process used."""

    wall: float
    cores: float


class Silent:
    """A watch that nobody looks at."""

    def stage(self, number: int, total: int) -> None:
        """Say nothing."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def remark(self, text: str) -> None:
        """Say nothing of remarks."""

    def agents(self, done: int, total: int) -> None:
        """Say nothing."""

    def round_ended(self, record: RoundRecord) -> None:
        """Say nothing."""


def pictures(count: int, seed: int) -> LabelledImages:
    """Return random pictures of the size of CIFAR's."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    return LabelledImages(pixels, np.zeros(count, np.int64), (ClassName("noise"),))


def network_alone(part: LabelledImages, folder: Path) -> Callable[[], object]:
    """Return what runs the network on all cores, the pictures being ready."""
    path = folder / "backbone.onnx"
    path.write_bytes(BACKBONE.data)
    session = InferenceSession(path, SessionSettings())
    ready = np.stack(
        [preprocess(part.picture(i), BACKBONE.preprocessing) for i in range(len(part))]
    )
    batches = [ready[start : start + AGENT_BATCH] for start in range(0, len(ready), AGENT_BATCH)]
    pool = ThreadPoolExecutor(cores())
    return lambda: list(pool.map(lambda batch: session.run("pooled", batch), batches))


def frozen_model(kind: MapKind) -> FrozenModel:
    """Return the network with an integer map of M columns, or without one."""
    imported = import_backbone(BACKBONE.data, BACKBONE.preprocessing)
    matrix = integer_map(0, WIDTH, COLUMNS) if kind == "integer" else None
    return FrozenModel(build_frozen(imported.model, kind, matrix), kind, matrix, 7)


def sides(folder: Path) -> dict[str, Callable[[], object]]:
    """Return what each side runs."""
    split = Split(pictures(PICTURES, seed=1), pictures(1, seed=2))
    caches = (folder / f"cache-{number}" for number in range(1000))

    def extract() -> None:
        open_bank(split, BACKBONE, next(caches), "cpu", Silent())

    bank = open_bank(split, BACKBONE, folder / "kept", "cpu", Silent())
    features = bank.frozen(frozen_model("integer"))
    rows = np.arange(PICTURES)
    quantised = bank.frozen(frozen_model("none")).train(rows)
    matrix = integer_map(0, WIDTH, COLUMNS).astype(np.float32)
    return {
        "network": network_alone(split.train, folder),
        "extract": extract,
        "again": lambda: open_bank(split, BACKBONE, folder / "kept", "cpu", Silent()),
        "product": lambda: quantised @ matrix,
        "project": lambda: features.train(rows),
    }


def measure(rounds: int, folder: Path) -> dict[str, Any]:
    """Return medians and ranges."""
    runs = sides(folder)
    taken: list[dict[str, Spent]] = []
    for side in SIDES:
        runs[side]()
    for number in range(rounds):
        order = SIDES[number % len(SIDES) :] + SIDES[: number % len(SIDES)]
        taken.append({side: spent(runs[side]) for side in order})
    pairs = (("extract", "network"), ("project", "product"))
    return {
        "pictures": PICTURES,
        "n": rounds,
        "seconds": {side: summary([one[side].wall for one in taken]) for side in SIDES},
        "core_seconds": {side: summary([one[side].cores for one in taken]) for side in SIDES},
        "ratio_of_core_seconds": {
            f"{side}/{floor}": summary([one[side].cores / one[floor].cores for one in taken])
            for side, floor in pairs
        },
    }


def spent(run: Callable[[], object]) -> Spent:
    """Return how long `run` takes."""
    wall, used = time.perf_counter(), time.process_time()
    run()
    return Spent(time.perf_counter() - wall, time.process_time() - used)


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return median and range, to four digits."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(arguments.rounds, Path(folder))
    machine = {**describe_machine("numpy", "onnxruntime", "pillow"), "used_cores": cores()}
    result = {"claim": "feature_bank", "machine": machine, **measured}
    print(json.dumps(measured, indent=2))
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Runs one case in a process of its own, and keeps of it what the claims are about."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.papers.simulated_cifar.cases import CASES, Material
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import Manifest
from fleetledger.simulator.engines.interface import Engine, Prepared
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.run.runs import run_scenario

MIB = 1024
BATCH, BATCHES = 8, 12
"""Pictures of a batch, as an agent's, and batches that are timed."""


class Clocked:
    """An engine whose stages are clocked in seconds of the process, which others cannot stretch."""

    def __init__(self, engine: Engine) -> None:
        self.seconds = 0.0
        self.model_folder = engine.model_folder
        self.close = engine.close
        self._engine = engine

    def learn(self, stage: StagePlan) -> StageRecord:
        """Let the engine learn a stage."""
        began = time.process_time()
        record = self._engine.learn(stage)
        self.seconds += time.process_time() - began
        return record


def measure(name: str, material: Material, seed: int, scratch: Path | None) -> dict[str, Any]:
    """Run a case in a new process, so that its seconds and its memory are its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run_case, name, material, seed, scratch).result()


def run_case(name: str, material: Material, seed: int, scratch: Path | None) -> dict[str, Any]:
    """Run a case in a folder that is removed afterwards; return what came out."""
    case = CASES[name]
    engines: list[Clocked] = []

    def clocked(prepared: Prepared, home: Path, screen: Screen) -> Engine:
        engines.append(Clocked(make_engine(prepared, home, screen)))
        return engines[-1]

    load = os.getloadavg()[0]
    with folder(scratch) as out:
        wall, process = time.perf_counter(), time.process_time()
        results = run_scenario(case.scenario(material, seed), out, Console(), clocked)
        spent = {
            "load_before": round(load, 1),
            "wall": round(time.perf_counter() - wall, 1),
            "process": round(time.process_time() - process, 1),
            "process_of_stages": round(sum(engine.seconds for engine in engines), 1),
        }
        records = RunFolder.open(out).seed(seed).records()
        cost = seconds_per_image(RunFolder.open(out).seed(seed).model)
    return {
        "about": case.about,
        "seed": seed,
        "partition": dict(case.partition),
        "settings": dict(case.settings),
        **outcome(results, seed),
        "aggregate": records[-1].aggregate,
        "head": records[-1].head,
        "bytes": sent(records),
        "seconds": {**spent, "phases": phases(records), "per_image": cost},
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB),
    }


def seconds_per_image(model: Path) -> float:
    """Return the processor seconds of one thread from a picture's input to its features."""
    manifest = Manifest.read((model / "manifest.json").read_bytes())
    inputs = noise_inputs(manifest.preprocessing, BATCH)
    frozen = LoadedModel((model / "frozen.onnx").read_bytes())
    given = {manifest.preprocessing.input_name: inputs}
    frozen.run(given)
    began = time.process_time()
    for _ in range(BATCHES):
        frozen.run(given)
    return round((time.process_time() - began) / BATCHES / BATCH, 5)


@contextmanager
def folder(scratch: Path | None) -> Iterator[Path]:
    """Give a new folder below `scratch`, and remove it in the end: runs take gigabytes."""
    path = Path(tempfile.mkdtemp(prefix="simulated-cifar-", dir=scratch))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def outcome(results: RunResults, seed: int) -> dict[str, Any]:
    """Return accuracies in %, after every stage, with those of pooled ridge where asked for."""
    metrics: SeedMetrics = results.seeds[seed]
    pooled = [stage.pooled_accuracy for stage in metrics.stages]
    told = {"accuracy": [percent(stage.accuracy) for stage in metrics.stages]}
    if None not in pooled:
        told["pooled"] = [percent(value) for value in pooled]
    return told


def percent(share: float | None) -> float:
    """Return a share in %, to as many digits as 10,000 images have."""
    assert share is not None
    return round(100 * share, 2)


def sent(records: Sequence[StageRecord]) -> dict[str, Any]:
    """Return what the devices sent: everything that their transport counted, stage by stage."""
    stages = [[device.bytes_up for device in record.devices.values()] for record in records]
    samples = [[one.counted_samples for one in record.devices.values()] for record in records]
    return {
        "samples_counted": samples,
        "up": stages,
        "up_per_device": round(sum(map(sum, stages)) / len(stages[0])),
    }


def phases(records: Sequence[StageRecord]) -> dict[str, float]:
    """Return wall seconds of all stages by phase."""
    names = records[0].seconds
    return {name: round(sum(one.seconds.get(name, 0.0) for one in records), 2) for name in names}

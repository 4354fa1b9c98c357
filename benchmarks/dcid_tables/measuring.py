"""One case in a run folder, gone on with where it was stopped, and its numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from simulator.metrics.over_seeds import summary
from simulator.metrics.results import FILE_NAME, RunResults
from simulator.metrics.seed_metrics import SeedMetrics
from simulator.run.running import resume_run, run_scenario
from simulator.scenario.loading import load_scenario

KINDS = ("images", "logits", "weights")


def run_case(scenario: str, changes: Sequence[str], folder: Path) -> RunResults:
    """Bring a case to its end: from its start, from where it stopped, or not at all."""
    if (folder / FILE_NAME).exists():
        return RunResults.read(folder)
    console = Console(stderr=True)
    with _processor_time(folder):
        if (folder / "run.json").exists():
            return resume_run(folder, console)
        return run_scenario(load_scenario(scenario, changes), folder, console)


def measured(results: RunResults, folder: Path) -> dict[str, Any]:
    """Return the numbers of a finished case: percent, points, bytes and seconds."""
    seeds = results.seeds.values()
    return {
        "seeds": list(results.seeds),
        "accuracy": {seed: _by_stage(metrics) for seed, metrics in results.seeds.items()},
        "base": _over([_by_stage(metrics)[0] for metrics in seeds]),
        "average": _over([float(np.mean(_by_stage(metrics))) for metrics in seeds]),
        "final": _over([_by_stage(metrics)[-1] for metrics in seeds]),
        "forgetting": _over([100 * metrics.headline["forgetting"] for metrics in seeds]),
        "bytes_per_session": _bytes(results),
        "shared_images": results.first.stages[-1].shared_images,
        "processor_seconds": _spent(folder),
    }


def _by_stage(metrics: SeedMetrics) -> list[float]:
    return [round(100 * stage.accuracy, 2) for stage in metrics.stages]


def _over(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean and sample deviation over seeds."""
    found = summary(values)
    deviation = None if found.deviation is None else round(found.deviation, 2)
    return {"mean": round(found.mean, 2), "deviation": deviation}


def _bytes(results: RunResults) -> dict[str, int]:
    """Return bytes of a session after the first, of the whole fleet: means over sessions, seeds."""
    sessions = [stage for metrics in results.seeds.values() for stage in metrics.stages[1:]]
    return {
        f"{kind} {direction}": round(
            float(np.mean([getattr(s, field).get(kind, 0) for s in sessions]))
        )
        for kind in KINDS
        for direction, field in (("up", "sent"), ("down", "received"))
    }


@contextmanager
def _processor_time(folder: Path) -> Iterator[None]:
    """Add the seconds of all threads of this process to what the folder knows."""
    before = time.process_time()
    try:
        yield
    finally:
        if folder.exists():
            with (folder / "processor.jsonl").open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(round(time.process_time() - before, 1)) + "\n")


def _spent(folder: Path) -> float | None:
    path = folder / "processor.jsonl"
    if not path.exists():
        return None
    return round(sum(float(line) for line in path.read_text(encoding="utf-8").split()), 1)

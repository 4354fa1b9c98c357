"""fleetledger: the task as a user writes it, with a network, data and a partition of their own.

    python -m benchmarks.speed.fleet_overhead.trained.ours CLIENTS ROUNDS [TRAINING [WORKERS]]

TRAINING is a value of `engine.training`, or `default`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

import fleetledger as fl
from benchmarks.speed.fleet_overhead.sides.telling import Mark, mark_all, tell
from benchmarks.speed.fleet_overhead.trained import task


@fl.network("bench_convnet")
def convnet(shape: tuple[int, ...]) -> nn.Module:
    """Return what makes features."""
    assert shape == (1, task.SIDE, task.SIDE)
    return task.body()


@fl.dataset("bench_samples")
def bench_samples(root: Path | None, seed: int, *, clients: int) -> fl.Split[Any]:
    """Return the samples of all clients, and those of the test."""
    del root, seed
    return fl.Split.of(train=task.samples(clients)[0], test=task.samples(clients)[1])


@fl.partition("bench_rows")
def bench_rows(
    labels: NDArray[np.int64], devices: int, random: np.random.Generator
) -> Sequence[NDArray[np.int64]]:
    """Return the rows of each client."""
    del random
    return np.array_split(np.arange(len(labels)), devices)


def scenario(clients: int, rounds: int, training: str, workers: int) -> dict[str, Any]:
    """Return one stage of so many rounds, in which everybody takes part."""
    engine: dict[str, Any] = {"device": "cpu", "workers": workers}
    if training != "default":
        engine["training"] = training
    return {
        "title": "A small network",
        "data": {"set": "bench_samples", "options": {"clients": clients}},
        "stages": {"classes": task.CLASSES, "count": 1},
        "devices": {"count": clients, "partition": {"rule": "bench_rows"}},
        "rounds": {"per_stage": rounds, "quorum": 1.0},
        "method": {
            "name": "rounds",
            "settings": {
                "network": "bench_convnet",
                "epochs": task.EPOCHS,
                "batch": task.BATCH,
                "rate": task.RATE,
                "momentum": 0.0,
            },
        },
        "engine": engine,
        "evaluation": {"every_rounds": rounds},
        "seeds": [task.SEED],
    }


def main() -> None:
    """Train in a folder that is removed afterwards."""
    clients, rounds = int(sys.argv[1]), int(sys.argv[2])
    training = sys.argv[3] if len(sys.argv) > 3 else "default"
    workers = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    marks: list[Mark] = []

    def noted(event: Any) -> None:  # noqa: ANN401 - a round's, a stage's, or the end
        if event.kind == "round":
            marks.append(mark_all())

    with tempfile.TemporaryDirectory(prefix="bench-trained-") as folder:
        os.environ["FLEETLEDGER_CACHE"] = str(Path(folder) / "cache")
        marks.append(mark_all())
        asked = scenario(clients, rounds, training, workers)
        run = fl.simulate(asked, output=Path(folder) / "run", callbacks=[noted])
        tell(marks, ["torch", "numpy"], {"accuracy": run.accuracy.mean})


if __name__ == "__main__":
    main()

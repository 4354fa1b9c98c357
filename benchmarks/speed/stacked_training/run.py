"""Measure a round of small convolutional networks: agents in one stack, against one after another.

Loop and stack take turns on the same works in one process, and so do the ways to compute a layer
(`layers.py`). Each number of threads has a process of its own, with OMP_NUM_THREADS set. Measured:

    processor   seconds of processor time, which other programs disturb less
    wall        seconds on the wall
    ratio       of loop to stack, in the same turn: above 1 the stack is faster
    apart       how far both models are apart, relative to each tensor's largest value or 0.1, in
                float32 and in float64: rounding moves values over a ReLU's zero, and grows

    python -m benchmarks.speed.stacked_training.run
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.gpu.cases import LocalRound, fleet_round
from benchmarks.gpu.entries import difference
from benchmarks.machine import describe_machine
from benchmarks.speed.stacked_training.layers import Size, step, ways
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.memory import agents_per_stack
from fleetledger.learning.training.settings import TrainingEngineSettings

RESULTS = RESULTS_FOLDER / "stacked_training.json"
ROOT = RESULTS.parents[2]
LOOP, STACK = TrainingEngineSettings("loop"), TrainingEngineSettings("stack")
CLOCKS: Mapping[str, Callable[[], float]] = {
    "processor": time.process_time,
    "wall": time.perf_counter,
}
ROUNDS: Mapping[str, Mapping[str, Any]] = {
    "resnet8, 32 pixels, batches of 64": {"side": 32, "batch": 64, "images": 128},
    "resnet8, 16 pixels, batches of 16": {"side": 16, "batch": 16, "images": 64},
    "resnet8, 8 pixels, batches of 8": {"side": 8, "batch": 8, "images": 64},
    "resnet20, 8 pixels, batches of 8": {
        "side": 8,
        "batch": 8,
        "images": 32,
        "network": "resnet20",
    },
    "convnet, 8 pixels, batches of 8": {
        "side": 8,
        "batch": 8,
        "images": 64,
        "network": "convnet",
    },
}
LAYERS: Mapping[str, Size] = {
    "20 agents, 64 pictures of 32 pixels": Size(20, 64, 32),
    "20 agents, 8 pictures of 32 pixels": Size(20, 8, 32),
    "20 agents, 8 pictures of 16 pixels": Size(20, 8, 16),
    "20 agents, 8 pictures of 8 pixels": Size(20, 8, 8),
    "4 agents, 8 pictures of 32 pixels, up to 512 channels": Size(4, 8, 32, (64, 128, 256, 512)),
}


def round_of(agents: int, side: int, batch: int, images: int, network: str) -> LocalRound:
    """Return the works of a round, with pictures that are shaken."""
    settings = {"network": network, "epochs": 1, "batch": batch, "pad": 2, "flip": True}
    return fleet_round(agents, images, side, settings, "cpu")


def turns_of(ways_: Mapping[str, Callable[[], object]], turns: int) -> dict[str, Any]:
    """Return the seconds of each way by each clock, turn by turn, after a run to warm up."""
    for run in ways_.values():
        run()
    seconds: dict[str, Any] = {name: {clock: [] for clock in CLOCKS} for name in ways_}
    for _ in range(turns):
        for name, run in ways_.items():
            gc.collect()
            began = {clock: now() for clock, now in CLOCKS.items()}
            run()
            for clock, now in CLOCKS.items():
                seconds[name][clock].append(now() - began[clock])
    return seconds


def told(seconds: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Return medians, and how many times as fast as `base` each way is, with the range."""
    found: dict[str, Any] = {}
    for name, clocks in seconds.items():
        found[name] = {}
        for clock, took in clocks.items():
            ratios = [one / other for one, other in zip(seconds[base][clock], took, strict=True)]
            found[name][clock] = {
                "seconds": round(statistics.median(took), 4),
                "ratio": round(statistics.median(ratios), 3),
                "range": [round(min(ratios), 3), round(max(ratios), 3)],
            }
    return found


def measure_rounds(agents: int, turns: int) -> dict[str, Any]:
    """Return what a round of each case takes both ways."""
    found = {}
    for name, case in ROUNDS.items():
        made = round_of(agents, **{"network": "resnet8", **case})
        runs = {
            "loop": lambda made=made: train(made.works, LOOP),
            "stack": lambda made=made: train(made.works, STACK),
        }
        found[name] = {
            **told(turns_of(runs, turns), "loop"),
            "agents_per_stack": min(agents, agents_per_stack(made.works, STACK)),
            "apart": _apart(made),
            "apart_in_float64": _apart(made.doubled()),
        }
    return found


def _apart(made: LocalRound) -> float:
    return float(f"{difference(made, LOOP, STACK):.2g}")


def measure_layers(turns: int) -> dict[str, Any]:
    """Return what each way to compute the convolutions takes."""
    found = {}
    for name, size in LAYERS.items():
        drawn = size.drawn()
        runs = {
            way: lambda compute=compute, drawn=drawn: step(compute, *drawn)
            for way, compute in ways(size).items()
        }
        found[name] = told(turns_of(runs, turns), "alone")
    return found


def table(threads: int, found: Mapping[str, Any]) -> str:
    """Return the processor seconds and ratios of one number of threads as tables in Markdown."""
    lines = []
    for kind, base in (("rounds", "loop"), ("layers", "alone")):
        names = [
            name for name, one in next(iter(found[kind].values())).items() if isinstance(one, dict)
        ]
        lines += [f"| {threads} threads, {kind} | {' | '.join(names)} |"]
        lines += ["| --- |" + " ---: |" * len(names)]
        for case, each in found[kind].items():
            cells = [_cell(each[name]["processor"], name == base) for name in names]
            lines.append(f"| {case} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(told_: Mapping[str, Any], is_base: bool) -> str:
    seconds = f"{told_['seconds']:.3g} s"
    low, high = told_["range"]
    return seconds if is_base else f"{seconds}, {told_['ratio']:.2f} ({low:.2f} to {high:.2f})"


def in_process(threads: int, words: Sequence[str]) -> dict[str, Any]:
    """Return what a process with so many threads has measured."""
    command = [sys.executable, "-m", "benchmarks.speed.stacked_training.run", "--here", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--here", action="store_true", help="measure in this process, and print")
    return parser.parse_args()


def main() -> None:
    """Measure, print and write the results."""
    arguments = parsed()
    if arguments.here:
        rounds = measure_rounds(arguments.agents, arguments.turns)
        found = {"rounds": rounds, "layers": measure_layers(arguments.turns)}
        print(json.dumps({"torch_threads": torch.get_num_threads(), **found}))
        return
    words = ["--agents", str(arguments.agents), "--turns", str(arguments.turns)]
    results = {
        "command": (
            f"python -m benchmarks.speed.stacked_training.run {' '.join(sys.argv[1:])}"
        ).strip(),
        "machine": describe_machine("numpy", "torch"),
        "agents": arguments.agents,
        "turns": arguments.turns,
        "by_threads": {},
    }
    for count in arguments.threads:
        results["by_threads"][str(count)] = in_process(count, words)
        text = json.dumps(results, indent=1)
        arguments.out.write_text(text + "\n", encoding="utf-8")
        print(table(count, results["by_threads"][str(count)]), flush=True)


if __name__ == "__main__":
    main()

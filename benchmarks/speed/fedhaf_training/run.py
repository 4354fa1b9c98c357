"""Measure a round of FedHAF's local training: a hundred agents stacked, against one after another.

Each agent holds 60 features, half of them exemplars. It trains the head for ten epochs while the
adapter is in use, and then the adapter for two while the head is, both distilled from the model of
the task before. The loop and the stack take turns in one process, on the same works. Measured:

    wall        seconds on the wall of a whole round
    processor   the same in seconds of processor time, which other programs disturb less; on a
                GPU that is what the host spends
    ratio       of loop to stack, in the same turn
    uploads     what the answers weigh, and how exactly their mean is that of the trained weights

    python -m benchmarks.speed.fedhaf_training.run --device cuda     on a GPU
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.fedhaf_training.fleet import Size, body_works, head_works, sent_numbers
from benchmarks.speed.fedhaf_training.uploads import measure_uploads
from fleetledger.learning.training.devices import moved_together
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.memory import agents_per_stack
from fleetledger.learning.training.settings import EngineName, TrainingEngineSettings
from fleetledger.learning.training.work import Trained, Work

RESULTS = RESULTS_FOLDER
GIB = 1 << 30
ANSWERS = 10
"""Agents whose answers are weighed."""
ENGINES: tuple[EngineName, ...] = ("loop", "stack")
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}


def measure(
    size: Size, works: Sequence[Work], settings: TrainingEngineSettings
) -> dict[str, dict[str, float]]:
    """Train one round and return the seconds of both parts by each clock."""
    heads, of_head = timed(works, settings)
    then = body_works(size, works, heads)
    _, of_body = timed(then, settings)
    return {
        clock: {
            "head": of_head[clock],
            "body": of_body[clock],
            "round": of_head[clock] + of_body[clock],
        }
        for clock in CLOCKS
    }


def timed(
    works: Sequence[Work], settings: TrainingEngineSettings
) -> tuple[list[Trained], dict[str, float]]:
    """Return what was trained, and the seconds by each clock."""
    gc.collect()
    settle(settings.device)
    began = {name: clock() for name, clock in CLOCKS.items()}
    trained = train(works, settings)
    settle(settings.device)
    return trained, {name: clock() - began[name] for name, clock in CLOCKS.items()}


def settle(device: str) -> None:
    """Wait until the device has done all it was asked."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def summarise(turns: Sequence[Mapping[EngineName, Any]]) -> dict[str, Any]:
    """Return medians over the turns, and ratios with their range."""
    summary: dict[str, Any] = {}
    for clock in CLOCKS:
        ratios = [turn["loop"][clock]["round"] / turn["stack"][clock]["round"] for turn in turns]
        summary[clock] = {
            engine: {
                part: round(statistics.median(turn[engine][clock][part] for turn in turns), 3)
                for part in ("head", "body", "round")
            }
            for engine in ENGINES
        }
        summary[clock]["loop_to_stack"] = {
            "median": round(statistics.median(ratios), 3),
            "range": [round(min(ratios), 3), round(max(ratios), 3)],
        }
    return summary


def on_machine(device: str) -> dict[str, str | int]:
    """Name the machine, and the GPU where one computes."""
    machine = describe_machine("numpy", "torch")
    if torch.device(device).type == "cuda":
        machine["gpu"] = torch.cuda.get_device_name(device)
    return machine


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="as torch names it: cpu, cuda")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch on the CPU")
    parser.add_argument("--stack-gib", type=float, default=1.0, help="memory that a stack may take")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results, by the device")
    return parser.parse_args()


def main() -> None:
    """Measure, print and write the results."""
    arguments = parsed()
    torch.set_num_threads(arguments.threads)
    size = Size(arguments.agents, arguments.samples, arguments.features)
    memory = int(arguments.stack_gib * GIB)
    settings = {
        engine: TrainingEngineSettings(engine, arguments.device, stack_bytes=memory)
        for engine in ENGINES
    }
    works = moved_together(head_works(size), arguments.device)
    few = works[:2]
    for engine in ENGINES:
        measure(size, few, settings[engine])
    turns = [
        {engine: measure(size, works, settings[engine]) for engine in ENGINES}
        for _ in range(arguments.turns)
    ]
    some = works[:ANSWERS]
    heads = train(some, settings["loop"])
    then = body_works(size, some, heads)
    results = {
        "command": (
            f"python -m benchmarks.speed.fedhaf_training.run {' '.join(sys.argv[1:])}"
        ).strip(),
        "machine": on_machine(arguments.device),
        "device": arguments.device,
        "threads": arguments.threads,
        "agents": size.agents,
        "samples": size.samples,
        "features": size.features,
        **sent_numbers(size),
        "agents_per_stack": {
            "head": agents_per_stack(works, settings["stack"]),
            "body": agents_per_stack(then, settings["stack"]),
        },
        "turns": arguments.turns,
        "seconds": summarise(turns),
        "uploads": measure_uploads(some, heads, train(then, settings["loop"])),
    }
    text = json.dumps(results, indent=2)
    out = arguments.out or RESULTS / f"fedhaf_training_{torch.device(arguments.device).type}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

"""Measure LGA's local training in images per second, against a bare torch loop.

The same network, batch, number of images and machine; both on uint8 pictures that are normalised
batch by batch. Two tasks: the first, with cross-entropy alone, and a later one, with L_CB, L_SD and
an old model, against cross-entropy and a divergence from a teacher. Both take turns.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.lga_training.run
    python -m benchmarks.speed.lga_training.run --device cuda --networks resnet18 --images 10240
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.lga_training.bare import (
    BareResNet,
    Loss,
    Settings,
    distilled,
    labelled,
    train,
)
from benchmarks.speed.lga_training.works import CLASSES, assignment, works
from fleetledger.learning.training.devices import moved
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Work

RESULTS = RESULTS_FOLDER
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}
Timed = dict[str, float]


def compare(network: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return images per second of both tasks, of LGA and bare, and their ratio."""
    of = assignment(network, arguments.side, arguments.batch, arguments.epochs)
    engine = TrainingEngineSettings("loop", arguments.device, arguments.bfloat16)
    made = works(of, arguments.images)
    return {task: _task(task, work, network, engine, arguments) for task, work in made.items()}


def _task(
    task: str,
    work: Work,
    network: str,
    engine: TrainingEngineSettings,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    on_device = moved(work, arguments.device)
    later = task != "first task"
    plain = BareResNet(network, 2 * CLASSES if later else CLASSES).to(arguments.device)
    teacher = BareResNet(network, CLASSES).to(arguments.device).eval()
    loss: Loss = distilled(teacher) if later else labelled
    settings = Settings(arguments.epochs, arguments.batch, arguments.bfloat16)
    _check_size(plain, work)

    def bare() -> None:
        train(plain, on_device.data.inputs, on_device.data.targets, loss, settings)

    sides: dict[str, Callable[[], object]] = {
        "lga": lambda: train_alone(on_device, engine),
        "bare": bare,
    }
    for side in sides.values():
        side()  # warms up: memory, kernels
    turns = [
        {name: timed(side, arguments.device) for name, side in sides.items()}
        for _ in range(arguments.turns)
    ]
    return summarise(turns, arguments.images * arguments.epochs)


def timed(side: Callable[[], object], device: str) -> Timed:
    """Return the seconds that a side takes by each clock."""
    _settle(device)
    began = {name: clock() for name, clock in CLOCKS.items()}
    side()
    _settle(device)
    return {name: clock() - began[name] for name, clock in CLOCKS.items()}


def summarise(turns: list[dict[str, Timed]], images: int) -> dict[str, Any]:
    """Return medians of images per second, and of LGA's speed as a share of the bare loop's."""
    found: dict[str, Any] = {}
    for clock in CLOCKS:
        ratios = [turn["bare"][clock] / turn["lga"][clock] for turn in turns]
        found[clock] = {
            **{
                f"{side}_images_per_second": round(
                    statistics.median(images / turn[side][clock] for turn in turns), 1
                )
                for side in ("lga", "bare")
            },
            "lga_to_bare": round(statistics.median(ratios), 3),
            "range": [round(min(ratios), 3), round(max(ratios), 3)],
        }
    return found


def _check_size(plain: torch.nn.Module, work: Work) -> None:
    """Raise `ValueError` where the two networks are not the same."""
    own = sum(tensor.numel() for tensor in work.parameters.values())
    bare = sum(tensor.numel() for tensor in plain.parameters())
    if own != bare:
        raise ValueError(f"parameters: {own} of LGA's network and {bare} of the bare one")


def _settle(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="as torch names it: cpu, cuda")
    parser.add_argument("--networks", default="resnet8", help="resnet8, resnet18, or both")
    parser.add_argument("--side", type=int, default=32, help="pixels")
    parser.add_argument("--images", type=int, default=1280, help="of a device")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch on the CPU")
    parser.add_argument("--bfloat16", action="store_true", help="autocast, on both sides")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results, by the device")
    return parser.parse_args()


def main() -> None:
    """Measure, print and write the results."""
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    networks = {name: compare(name, arguments) for name in arguments.networks.split(",")}
    machine = describe_machine("torch")
    if torch.device(arguments.device).type == "cuda":
        machine["gpu"] = torch.cuda.get_device_name(arguments.device)
    given = {name: value for name, value in vars(arguments).items() if name != "out"}
    results = {
        "command": f"python -m benchmarks.speed.lga_training.run {' '.join(sys.argv[1:])}".strip(),
        "machine": machine,
        **given,
        "networks": networks,
    }
    kind = torch.device(arguments.device).type
    out = arguments.out or RESULTS / f"lga_training_{kind}.json"
    text = json.dumps(results, indent=2)
    out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

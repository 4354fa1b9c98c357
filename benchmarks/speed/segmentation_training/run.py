"""Measure training of dense networks: peak of memory and seconds of a step, setting by setting.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.segmentation_training.run
    python -m benchmarks.speed.segmentation_training.run --device cuda --out gpu.json

Weights and pictures are random: they do not change what is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.segmentation_training.plans import NEW_CLASSES, OLD_CLASSES, Plan, plans
from fleetledger.learning.networks.segmentation.registry import DENSE_BODIES

RESULTS = RESULTS_FOLDER / "segmentation_training.json"


def child(plan: Plan, device: str, gibibytes: float) -> dict[str, Any]:
    """Return what a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks.speed.segmentation_training.measuring"]
    command += [device, str(gibibytes), json.dumps(plan.fields())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def gpu_name() -> str:
    """Return the name of torch's GPU."""
    import torch

    return torch.cuda.get_device_name()


def main() -> None:
    """Measure the networks that the command line names and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=DENSE_BODIES, default=list(DENSE_BODIES))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--most", type=float, default=12.0, help="gibibytes of a process's own")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    machine = describe_machine("numpy", "torch")
    if arguments.device == "cuda":
        machine["gpu"] = gpu_name()
    result: dict[str, Any] = {
        "machine": machine,
        "settings": {
            "device": arguments.device,
            "most_gib": arguments.most,
            "rows": 1 + OLD_CLASSES + NEW_CLASSES,
            "threads": 1,
        },
        "plans": [],
    }
    for plan in plans(arguments.networks):
        measured = child(plan, arguments.device, arguments.most)
        print(plan.network, plan.title, json.dumps(measured), flush=True)
        result["plans"].append({**plan.fields(), **measured})
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

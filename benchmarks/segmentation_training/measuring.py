"""One plan in a process of its own, so that its peak of memory is its own.

    python -m benchmarks.segmentation_training.measuring DEVICE GIBIBYTES '{"network": ...}'

Prints a JSON object; `fits` is false where training asks for more than so many gibibytes.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np
import torch

from benchmarks.segmentation_networks.measuring import peak_mib
from benchmarks.segmentation_training.lesson import build_work, step_alone
from benchmarks.segmentation_training.plans import Plan
from learning.training.loop import train_alone
from learning.training.settings import EngineSettings
from learning.training.work import Work


def measure(plan: Plan, device: str) -> dict[str, Any]:
    """Return what training by a plan takes: an epoch of a full pass and a step, then a step."""
    imported = peak_mib()
    work = build_work(plan)
    settings = EngineSettings(device=device, autocast=plan.bfloat16, inference_batch=8)
    epoch = timed(work, settings)
    step = timed(step_alone(work), settings)
    found = {
        "fits": True,
        "epoch_wall_s": epoch["wall_s"],
        "step_wall_s": step["wall_s"],
        "step_processor_s": step["processor_s"],
        "imported_mib": imported,
        "peak_mib": peak_mib(),
    }
    if device != "cpu":
        found["gpu_peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return found


def timed(work: Work, settings: EngineSettings) -> dict[str, float]:
    """Return the seconds of training, which must end in finite numbers."""
    wall, processor = time.perf_counter(), time.process_time()
    trained = train_alone(work, settings)
    assert np.isfinite(trained.losses).all()  # waits for a GPU, too: losses are numbers
    return {
        "wall_s": round(time.perf_counter() - wall, 3),
        "processor_s": round(time.process_time() - processor, 3),
    }


def measured_within(gibibytes: float, plan: Plan, device: str) -> dict[str, Any]:
    """Return the same, or that it does not fit so much memory of its own."""
    most = int(gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        return measure(plan, device)
    except torch.OutOfMemoryError:
        return {"fits": False}
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        return {"fits": False}


def main() -> None:
    """Measure the plan that the arguments name."""
    device, gibibytes, fields = sys.argv[1:]
    torch.set_num_threads(1)
    print(json.dumps(measured_within(float(gibibytes), Plan(**json.loads(fields)), device)))


if __name__ == "__main__":
    main()

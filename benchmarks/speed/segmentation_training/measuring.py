"""One plan in a process of its own, so that its peak of memory is its own.

    python -m benchmarks.speed.segmentation_training.measuring DEVICE GIBIBYTES '{"network": ...}'

Prints a JSON object; `fits` is false where training asks for more than so many gibibytes.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.speed.segmentation_networks.measuring import peak_mib
from benchmarks.speed.segmentation_training.lesson import build_work
from benchmarks.speed.segmentation_training.plans import Plan
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Extras, Work

WARMED_UP = 2.0
"""Seconds after which a run needs no other one before it."""


def measure(plan: Plan, device: str) -> dict[str, Any]:
    """Return what training by a plan takes: a full pass, if there is one, and a step."""
    imported = peak_mib()
    work = build_work(plan)
    settings = TrainingEngineSettings(device=device, autocast=plan.bfloat16, inference_batch=8)
    seconds = timed(work, settings)
    if seconds["pass_wall_s"] + seconds["step_wall_s"] < WARMED_UP:
        seconds = timed(work, settings)
    found = {"fits": True, **seconds, "imported_mib": imported, "peak_mib": peak_mib()}
    if device != "cpu":
        found["gpu_peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return found


def timed(work: Work, settings: TrainingEngineSettings) -> dict[str, float]:
    """Return the seconds of an epoch's pass and step, which must end in finite numbers."""
    began = now()
    passed = [began]
    prepare = work.prepare

    def watched(
        of: Work, parameters: Tensors, buffers: Tensors, epoch: int, infer: Inference
    ) -> Extras:
        found = Extras()
        if prepare is not None:
            found = prepare(of, parameters, buffers, epoch, infer)
        passed.append(now())
        return found

    trained = train_alone(replace(work, prepare=watched), settings)
    assert np.isfinite(trained.losses).all()
    ended, between = now(), passed[-1]
    return {
        "pass_wall_s": round(between[0] - began[0], 3),
        "step_wall_s": round(ended[0] - between[0], 3),
        "pass_processor_s": round(between[1] - began[1], 3),
        "step_processor_s": round(ended[1] - between[1], 3),
    }


def now() -> tuple[float, float]:
    """Return the seconds on the clock and of the processor, once a GPU has done its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def measured_within(gibibytes: float, plan: Plan, device: str) -> dict[str, Any]:
    """Return the same, or that it does not fit so much memory of its own."""
    most = int(gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        return measure(plan, device)
    except MemoryError:
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

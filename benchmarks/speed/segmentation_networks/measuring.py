"""One measurement in a process of its own, so that its peak of memory is its own.

    python -m benchmarks.speed.segmentation_networks.measuring inference FOLDER
    python -m benchmarks.speed.segmentation_networks.measuring step NETWORK SIDE BATCH

Prints a JSON object. `inference` imports no torch, as a device that only looks does not.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TURNS = 5
CLASSES = 20


def inference(folder: Path) -> dict[str, Any]:
    """Run `frozen.onnx` and `head.onnx` of a folder on a picture, as a device's agent does."""
    from fleetledger.device_agent.models.inference.installed_model import (
        InferenceSession,
        SessionSettings,
    )
    from fleetledger.schemas.models import FEATURES, SCORES

    picture = np.load(folder / "picture.npy")
    settings = SessionSettings(threads=1)
    InferenceSession(folder / "empty.onnx", settings)
    before = peak_mib()
    trunk, head = (
        InferenceSession(folder / f"{part}.onnx", settings) for part in ("frozen", "head")
    )

    def run() -> None:
        head.run(SCORES, trunk.run(FEATURES, picture))

    return {**timed(run), "imported_mib": before, "peak_mib": peak_mib()}


def step(name: str, side: int, batch: int) -> dict[str, Any]:
    """Train the network for single steps: forward, backward, SGD with momentum."""
    import torch
    from torch.nn import functional

    from fleetledger.learning.networks.conversion import to_tensors
    from fleetledger.learning.networks.segmentation.registry import build_segmentation
    from fleetledger.learning.networks.segmentation.torch_layers import DensePass
    from fleetledger.learning.networks.torch_layers import Mode

    torch.set_num_threads(1)
    before = peak_mib()
    network = build_segmentation(name, (3, side, side))
    classes = [f"class {number}" for number in range(CLASSES)]
    parameters, buffers = to_tensors(network.initial(0, classes))
    leaves = {key: value.requires_grad_() for key, value in parameters.items()}
    optimiser = torch.optim.SGD(leaves.values(), 0.01, momentum=0.9, nesterov=True)
    pictures = torch.randn(batch, 3, side, side)
    labels = torch.randint(0, CLASSES + 1, (batch, side, side))
    mode = Mode(True, dropout=lambda values, rate, _: functional.dropout(values, rate))

    def run() -> None:
        outputs, _ = DensePass(network)(leaves, buffers, pictures, mode)
        optimiser.zero_grad()
        functional.cross_entropy(outputs.logits, labels).backward()
        optimiser.step()

    numbers = sum(value.numel() for value in leaves.values())
    return {**timed(run), "parameters": numbers, "imported_mib": before, "peak_mib": peak_mib()}


def timed(run: Callable[[], None]) -> dict[str, float]:
    """Return the medians of wall and processor seconds, after one run to warm up."""
    run()
    wall, processor = [], []
    for _ in range(TURNS):
        began = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    return {
        "wall_s": round(statistics.median(wall), 4),
        "processor_s": round(statistics.median(processor), 4),
    }


def peak_mib() -> float:
    """Return the most memory that this process ever held."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def main() -> None:
    """Measure what the arguments name."""
    what, *arguments = sys.argv[1:]
    if what == "inference":
        print(json.dumps(inference(Path(arguments[0]))))
    else:
        name, side, batch = arguments
        print(json.dumps(step(name, int(side), int(batch))))


if __name__ == "__main__":
    main()

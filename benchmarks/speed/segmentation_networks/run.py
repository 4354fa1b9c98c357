"""Measure every dense network at 128 pixels: one inference, one step of training, memory, bytes.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.segmentation_networks.run

Weights are random: they do not change what is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.segmentation_networks.measuring import CLASSES, TURNS
from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.networks.segmentation.registry import DENSE_BODIES, build_segmentation
from fleetledger.schemas.models import Preprocessing

RESULTS = RESULTS_FOLDER / "segmentation_networks.json"


def measure(name: str, side: int, batch: int) -> dict[str, Any]:
    """Return everything about one network."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = write_files(name, side, Path(folder))
        looked = child("inference", folder)
    return {**sizes, "inference": looked, "step": child("step", name, str(side), str(batch))}


def write_files(name: str, side: int, folder: Path) -> dict[str, Any]:
    """Write the pair, a picture and a model of one node; return what the pair looks like."""
    network = build_segmentation(name, (3, side, side))
    preprocessing = Preprocessing(
        mode="RGB", size=(side, side), mean=(0.5,) * 3, deviation=(0.25,) * 3, input_name="image"
    )
    arrays = network.initial(0, [f"class {number}" for number in range(CLASSES)])
    files = export_segmentation(network, arrays, preprocessing)
    head = files.head.file()
    (folder / "frozen.onnx").write_bytes(files.trunk)
    (folder / "head.onnx").write_bytes(head)
    (folder / "empty.onnx").write_bytes(one_node())
    picture = np.random.default_rng(0).normal(size=(1, 3, side, side)).astype(np.float32)
    np.save(folder / "picture.npy", picture)
    return {
        "features": [network.width, *files.head.small],
        "scores": [CLASSES + 1, side, side],
        "frozen_bytes": len(files.trunk),
        "head_bytes": len(head),
    }


def one_node() -> bytes:
    """Return the smallest model, so that ONNX Runtime itself is loaded before memory is looked at.

    What it holds then is `imported_mib`.
    """
    graph = GraphBuilder()
    graph.add("Identity", "image", output="same")
    return graph.model([float_value("image", "N")], [float_value("same", "N")])


def child(*arguments: str) -> dict[str, Any]:
    """Return what a measurement in a process of its own prints."""
    command = [sys.executable, "-m", "benchmarks.speed.segmentation_networks.measuring", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> None:
    """Measure the networks that the command line names and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=DENSE_BODIES, default=list(DENSE_BODIES))
    parser.add_argument("--side", type=int, default=128, help="pixels along a side")
    parser.add_argument("--batch", type=int, default=4, help="pictures in a step of training")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    networks = {}
    for name in arguments.networks:
        networks[name] = measure(name, arguments.side, arguments.batch)
        print(name, json.dumps(networks[name]), flush=True)
    result = {
        "machine": describe_machine("numpy", "onnxruntime", "torch"),
        "settings": {
            "side": arguments.side,
            "batch_of_a_step": arguments.batch,
            "rows": CLASSES + 1,
            "turns": TURNS,
            "threads": 1,
        },
        "networks": networks,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

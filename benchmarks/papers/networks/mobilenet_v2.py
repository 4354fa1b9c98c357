"""MobileNetV2 of width 1.0 as an ONNX feature extractor, without torch: two files.

    python -m benchmarks.papers.networks.mobilenet_v2 --size 112 --out mobilenet.onnx
    python -m benchmarks.papers.networks.mobilenet_v2 --size 112 --out mobilenet.onnx --weights FILE

FILE is a safetensors file with torchvision's state dict, of any float type. Without it the weights
are random, of a fixed seed: enough for memory and speed, not for accuracy. Beside the model a
preprocessing file is written, with ImageNet's mean and deviation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    load_weights,
    random_weights,
)


def main() -> None:
    """Write the model and, beside it, its preprocessing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=112, help="pixels along a side")
    parser.add_argument("--out", type=Path, required=True, help="ONNX file to write")
    parser.add_argument("--weights", type=Path, help="safetensors file with torchvision's names")
    arguments = parser.parse_args()
    weights = load_weights(arguments.weights) if arguments.weights else random_weights()
    model = build_mobilenet_v2(arguments.size, weights)
    arguments.out.write_bytes(model)
    beside = arguments.out.with_suffix(".json")
    beside.write_text(imagenet_preprocessing(arguments.size).model_dump_json(indent=2) + "\n")
    print(f"{arguments.out}: {len(model):,} bytes; preprocessing in {beside}")


if __name__ == "__main__":
    main()

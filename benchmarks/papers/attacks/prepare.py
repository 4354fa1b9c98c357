"""Make the files that `fleetledger attack run` takes for CIFAR-100 behind a trained ResNet-20.

    python -m benchmarks.papers.attacks.prepare DATA OUT

`DATA` holds `cifar100/cifar100_core.npz`, images as reversible differences, and
`resnet_cifar10/resnet20_cifar10_fp16.safetensors`, a network that was trained on CIFAR-10, of other
classes. `OUT` gets `cifar.npz`, 50 images of each of 20 classes, and `resnet20`, the network as a
fleet's file. Its shortcuts without parameters become convolutions of ones and zeros.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.body import EPSILON
from fleetledger.learning.networks.registry import build_network
from fleetledger.methods.training.network_weights import encode_weights
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.npz import save_npz

CLASSES, IMAGES = 20, 50
Arrays = dict[str, npt.NDArray[np.float32]]


def pictures(file: Path) -> Split[LabelledImages]:
    """Return the first images of the first classes, the same as test images."""
    held = np.load(file)
    labels = held["train_y"].astype(np.int64)
    rows = np.concatenate([np.flatnonzero(labels == c)[:IMAGES] for c in range(CLASSES)])
    values = held["train_x_delta"][rows]
    for axis in (2, 3):
        values = np.add.accumulate(values, axis=axis, dtype=np.uint8)
    values[:, 0] += values[:, 1]
    values[:, 2] += values[:, 1]
    names = tuple(ClassName(str(name)) for name in held["fine_names"][:CLASSES])
    part = LabelledImages(np.ascontiguousarray(values.transpose(0, 2, 3, 1)), labels[rows], names)
    return Split(part, part)


def weights(file: Path) -> bytes:
    """Return the network of a safetensors file as a fleet's file."""
    from safetensors.numpy import load_file

    network = build_network("resnet20", (3, 32, 32))
    names = tuple(f"class {number}" for number in range(10))
    arrays = network.initial(0, names)
    for name, values in load_file(file).items():
        arrays[name.replace("linear.", "head.")] = values.astype(np.float32)
    for group in (2, 3):
        _plain_shortcut(arrays, f"layer{group}.0.downsample")
    return encode_weights(arrays, tuple(ClassName(name) for name in names))


def _plain_shortcut(arrays: Arrays, name: str) -> None:
    """Pass each channel on, between channels of zeros, in place of a trained convolution."""
    kernel = np.zeros_like(arrays[f"{name}.0.weight"])
    outputs, inputs = kernel.shape[:2]
    for channel in range(inputs):
        kernel[(outputs - inputs) // 2 + channel, channel] = 1
    arrays[f"{name}.0.weight"] = kernel
    ones = np.ones(outputs, np.float32)
    arrays[f"{name}.1.weight"] = ones * np.float32(np.sqrt(1 + EPSILON))
    arrays[f"{name}.1.bias"] = arrays[f"{name}.1.running_mean"] = 0 * ones
    arrays[f"{name}.1.running_var"] = ones


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    save_npz(asked.out / "cifar.npz", pictures(asked.data / "cifar100" / "cifar100_core.npz"))
    network = asked.data / "resnet_cifar10" / "resnet20_cifar10_fp16.safetensors"
    (asked.out / "resnet20").write_bytes(weights(network))


if __name__ == "__main__":
    main()

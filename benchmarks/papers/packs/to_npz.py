"""Bring a pack of difference-coded images into the layout of `simulator.datasets.npz`.

    python -m benchmarks.papers.packs.to_npz cifar100_core.npz --names fine_names --out core.npz
    python -m benchmarks.papers.packs.to_npz cifar100_core.npz cifar100_rest_a.npz \
        cifar100_rest_b.npz \
        --names fine_names --out cifar100.npz

A pack holds `train_x_delta` and `train_y`, and perhaps `test_x_delta` and `test_y`; images are
uint8 (N, 3, height, width) of differences modulo 256: first between the pixels of a column, then
between those of a row, last red and blue to green. Several packs of the same classes are
concatenated; the first holds the class names, in the array that `--names` tells.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets import LabelledImages, Split
from fleetledger.simulator.datasets.npz import save_npz

Bytes = npt.NDArray[np.uint8]


def decode(differences: Bytes) -> Bytes:
    """Return RGB images (N, height, width, 3) of differences (N, 3, height, width)."""
    planes: Bytes = np.add.accumulate(differences, axis=2, dtype=np.uint8)
    planes = np.add.accumulate(planes, axis=3, dtype=np.uint8)
    planes[:, 0] += planes[:, 1]
    planes[:, 2] += planes[:, 1]
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def encode(images: Bytes) -> Bytes:
    """Return what `decode` takes; the law: `decode(encode(x)) == x`."""
    planes: Bytes = images.transpose(0, 3, 1, 2).copy()
    planes[:, 0] -= planes[:, 1]
    planes[:, 2] -= planes[:, 1]
    for axis in (3, 2):
        planes = np.diff(planes, axis=axis, prepend=np.uint8(0))
    return planes


def read_packs(paths: list[Path], names_array: str) -> Split[LabelledImages]:
    """Return all images of the packs; raise `KeyError` where an array is missing."""
    packs = [np.load(path, allow_pickle=False) for path in paths]
    names = tuple(ClassName(str(name)) for name in packs[0][names_array])

    def part(which: str) -> LabelledImages:
        holding = [pack for pack in packs if f"{which}_y" in pack]
        images = np.concatenate([decode(pack[f"{which}_x_delta"]) for pack in holding])
        labels = np.concatenate([pack[f"{which}_y"] for pack in holding]).astype(np.int64)
        return LabelledImages(images, labels, names)

    return Split(train=part("train"), test=part("test"))


def main() -> None:
    """Convert and say how much it was."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packs", type=Path, nargs="+", metavar="PACK.npz")
    parser.add_argument("--names", required=True, help="array with the class names")
    parser.add_argument("--out", type=Path, required=True, help=".npz file to write")
    arguments = parser.parse_args()
    split = read_packs(arguments.packs, arguments.names)
    save_npz(arguments.out, split)
    print(
        f"{arguments.out}: {len(split.train):,} images to learn from and {len(split.test):,} to "
        f"be asked about, of {split.train.classes} classes"
    )


if __name__ == "__main__":
    main()

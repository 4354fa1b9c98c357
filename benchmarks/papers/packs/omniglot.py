"""Bring the Omniglot pack into the layout of `simulator.datasets.npz`, with drawers as owners.

    python -m benchmarks.papers.packs.omniglot omniglot28.npz --out omniglot.npz

The pack holds `x` (uint8, N x 28 x 28), `y`, `drawer` (the writer within the alphabet), and of each
class `class_alphabet`, of each alphabet `alphabet_names`. A class becomes `alphabet-characterNN`,
NN counted within the alphabet, as torchvision's files are named. Of every class `--test-share` of
the images, drawn by `--seed`, become test images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets import LabelledImages, Split
from fleetledger.simulator.datasets.labels import stratified_split
from fleetledger.simulator.datasets.npz import save_npz


def read_pack(path: Path, test_share: float, seed: int) -> Split[LabelledImages]:
    """Return the pack as a data set; raise `KeyError` where an array is missing."""
    with np.load(path, allow_pickle=False) as pack:
        names = character_names(pack["class_alphabet"], pack["alphabet_names"])
        labels, owners = (pack[name].astype(np.int64) for name in ("y", "drawer"))
        everything = LabelledImages(pack["x"], labels, names, owners)
    train, test = stratified_split(everything.labels, test_share, seed)
    return Split(everything.take(train), everything.take(test))


def character_names(
    alphabets: npt.NDArray[np.uint8], names: npt.NDArray[np.str_]
) -> tuple[ClassName, ...]:
    """Return a name for each class from the number of its alphabet."""
    counted: dict[int, int] = {}
    result = []
    for alphabet in alphabets.tolist():
        counted[alphabet] = counted.get(alphabet, 0) + 1
        result.append(ClassName(f"{names[alphabet]}-character{counted[alphabet]:02}"))
    return tuple(result)


def main() -> None:
    """Convert and say how much it was."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pack", type=Path, metavar="PACK.npz")
    parser.add_argument("--out", type=Path, required=True, help=".npz file to write")
    parser.add_argument("--test-share", type=float, default=0.25, help="of every class")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    arguments = parser.parse_args()
    split = read_pack(arguments.pack, arguments.test_share, arguments.seed)
    save_npz(arguments.out, split)
    print(
        f"{arguments.out}: {len(split.train):,} images to learn from and {len(split.test):,} to "
        f"be asked about, of {split.train.classes:,} classes"
    )


if __name__ == "__main__":
    main()

"""Bring a pack of pictures with masks into the layout of `simulator.datasets.npz`.

    python -m benchmarks.papers.packs.segmentation camvid120.npz --out camvid.npz
    python -m benchmarks.papers.packs.segmentation msrc160.npz --without horse mountain \
        --out msrc.npz

Pictures are difference-coded as `benchmarks.papers.packs.to_npz` tells. A pack either has its parts
as arrays of their own, `train_x_delta`, `train_y`, `test_x_delta` and `test_y`, or one `x_delta`
and `y` with a `split` of 0 for training and 2 for testing; other parts are left out. Masks count
classes from 0, and 255 has no label. `classes` holds the names. A class that `--without` names
becomes 255: with 2 horses among 352 pictures nothing can be learned.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.papers.packs.to_npz import decode
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.npz import save_npz
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.samples import IGNORED, value_of

SPLITS = {"train": 0, "test": 2}
"""Numbers of the parts in `split`."""


def read_pack(path: Path, without: Sequence[str] = ()) -> Split[SegmentedImages]:
    """Return the pack as a data set; raise `KeyError` where an array is missing.

    Raises `ValueError` for a name in `without` that is no class of the pack.
    """
    with np.load(path, allow_pickle=False) as pack:
        names = [str(name) for name in pack["classes"]]
        values = new_values(names, without)
        kept = tuple(ClassName(name) for name in names if name not in without)

        def part(which: str) -> SegmentedImages:
            if "split" in pack:
                members = pack["split"] == SPLITS[which]
                differences, labels = pack["x_delta"][members], pack["y"][members]
            else:
                differences, labels = pack[f"{which}_x_delta"], pack[f"{which}_y"]
            return SegmentedImages(decode(differences), values[labels], kept)

        return Split(train=part("train"), test=part("test"))


def new_values(names: Sequence[str], without: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return the mask value of every label from 0 to 255; 255 but for the classes that stay."""
    unknown = sorted(set(without) - set(names))
    if unknown:
        raise ValueError(f"--without: {unknown[0]} is no class; there are {', '.join(names)}")
    values = np.full(256, IGNORED, np.uint8)
    kept = [label for label, name in enumerate(names) if name not in without]
    values[kept] = [value_of(label) for label in range(len(kept))]
    return values


def main() -> None:
    """Convert and say how much it was."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pack", type=Path, metavar="PACK.npz")
    parser.add_argument("--without", nargs="+", default=[], help="classes to leave out")
    parser.add_argument("--out", type=Path, required=True, help=".npz file to write")
    arguments = parser.parse_args()
    split = read_pack(arguments.pack, arguments.without)
    save_npz(arguments.out, split)
    print(
        f"{arguments.out}: {len(split.train):,} pictures to learn from and {len(split.test):,} to "
        f"be asked about, of {len(split.train.class_names)} classes"
    )


if __name__ == "__main__":
    main()

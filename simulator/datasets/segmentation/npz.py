"""A segmentation data set in one `.npz` file.

| array | type and shape | holds |
| --- | --- | --- |
| `train_x` | uint8, (N, height, width, 3) | RGB pictures to learn from |
| `train_mask` | uint8, (N, height, width) | 0 background, 1 to C the classes, 255 left out |
| `test_x` | uint8, like `train_x` | pictures to be asked about |
| `test_mask` | uint8, like `train_mask` | their masks |
| `class_names` | str, (C,) | the name of each class, that of value 1 first |

Other arrays are left alone. Nothing in the file is unpickled.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.simulator.datasets.npz import array_of, class_names_of
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.samples import SegmentedSplit
from fleetledger.simulator.errors import DatasetError


def load_segmentation_npz(path: Path) -> SegmentedSplit[SegmentedImages]:
    """Read a data set; raise `DatasetError` naming the array that is missing or does not fit."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return SegmentedSplit(*(_part(path, arrays, part) for part in ("train", "test")))
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}; give an .npz file of the layout in docs/datasets.md"
        ) from error


def save_segmentation_npz(path: Path, split: SegmentedSplit[SegmentedImages]) -> None:
    """Write a data set compressed; the law: `load_segmentation_npz` returns what was written."""
    arrays: dict[str, Any] = {"class_names": np.asarray(split.train.class_names, dtype=np.str_)}
    for name, part in (("train", split.train), ("test", split.test)):
        arrays |= {f"{name}_x": part.images.transpose(0, 2, 3, 1), f"{name}_mask": part.masks}
    np.savez_compressed(path, **arrays)


def _part(path: Path, arrays: np.lib.npyio.NpzFile, part: str) -> SegmentedImages:
    pictures: npt.NDArray[Any] = array_of(path, arrays, f"{part}_x")
    names = class_names_of(path, array_of(path, arrays, "class_names"))
    if pictures.ndim != 4 or pictures.shape[3] != 3:
        raise DatasetError(
            f"{path}: {part}_x: shape {pictures.shape}; give RGB pictures, (N, height, width, 3)"
        )
    masks = array_of(path, arrays, f"{part}_mask")
    try:
        return SegmentedImages(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)), masks, names)
    except DatasetError as error:
        raise DatasetError(f"{path}: {part}: {error}") from error

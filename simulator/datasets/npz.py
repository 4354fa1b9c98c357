"""A data set in one `.npz` file, so that any labelled images can go through a fleet.

| array | type and shape | holds |
| --- | --- | --- |
| `train_x` | uint8, (N, height, width, 3) or (N, height, width) | RGB or grey, to learn from |
| `train_y` | integers, (N,) | their classes, counted from 0 |
| `test_x` | uint8, like `train_x` | to be asked about |
| `test_y` | integers, (T,) | their classes |
| `class_names` | str, (C,) | the name of each class, a folder name on the devices |
| `train_owner` | integers, (N,); may be missing | natural owner of each image, such as its drawer |
| `test_owner` | integers, (T,); may be missing | the same of the test images |

Other arrays are left alone. Nothing in the file is unpickled.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.schemas.errors import InvalidValueError
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.errors import DatasetError


def load_npz(path: Path) -> Split[LabelledImages]:
    """Read a data set; raise `DatasetError` naming the array that is missing or does not fit."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = class_names_of(path, array_of(path, arrays, "class_names"))
            train, test = (_part(path, arrays, part, names) for part in ("train", "test"))
            if train.images.ndim != test.images.ndim:
                raise DatasetError(
                    f"{path}: test_x: shape {test.images.shape} beside {train.images.shape} of "
                    "train_x; give both as RGB or both as grey"
                )
            return Split(train=train, test=test)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}; give an .npz file of the layout in docs/datasets.md"
        ) from error


def save_npz(path: Path, split: Split[LabelledImages]) -> None:
    """Write a data set compressed; the law: `load_npz` returns what was written."""
    arrays: dict[str, Any] = {"class_names": np.asarray(split.train.class_names, dtype=np.str_)}
    for name, part in (("train", split.train), ("test", split.test)):
        arrays |= {f"{name}_x": part.images, f"{name}_y": part.labels}
        if part.owners is not None:
            arrays[f"{name}_owner"] = part.owners
    np.savez_compressed(path, **arrays)


def _part(
    path: Path, arrays: np.lib.npyio.NpzFile, part: str, names: tuple[ClassName, ...]
) -> LabelledImages:
    images = array_of(path, arrays, f"{part}_x")
    labels = _whole_numbers(path, arrays, f"{part}_y", "give integers from 0 on")
    owner = f"{part}_owner"
    owners = (
        _whole_numbers(path, arrays, owner, "give an integer per owner")
        if owner in arrays
        else None
    )
    try:
        return LabelledImages(images, labels, names, owners)
    except DatasetError as error:
        raise DatasetError(f"{path}: {part}: {error}") from error


def _whole_numbers(
    path: Path, arrays: np.lib.npyio.NpzFile, name: str, way_out: str
) -> npt.NDArray[np.int64]:
    values = array_of(path, arrays, name)
    if values.dtype.kind not in "ui":
        raise DatasetError(f"{path}: {name}: {values.dtype}; {way_out}")
    return values.astype(np.int64)


def class_names_of(path: Path, array: npt.NDArray[Any]) -> tuple[ClassName, ...]:
    """Return the names of classes; raise `DatasetError` unless they are different strings."""
    if array.ndim != 1 or array.dtype.kind != "U":
        raise DatasetError(
            f"{path}: class_names: {array.dtype} of shape {array.shape}; give a row of strings"
        )
    try:
        names = tuple(ClassName(str(name)) for name in array)
    except InvalidValueError as error:
        raise DatasetError(f"{path}: class_names: {error}") from error
    if len(set(names)) != len(names):
        raise DatasetError(f"{path}: class_names: a name is there twice; give each once")
    return names


def array_of(path: Path, arrays: np.lib.npyio.NpzFile, name: str) -> npt.NDArray[Any]:
    """Return an array of a file; raise `DatasetError` if it is missing."""
    if name not in arrays:
        raise DatasetError(f"{path}: {name}: is missing; the arrays are {sorted(arrays.files)}")
    return arrays[name]

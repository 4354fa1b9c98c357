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

A data set for segmentation has RGB images alone, and masks instead of classes and owners:

| array | type and shape | holds |
| --- | --- | --- |
| `train_mask` | uint8, (N, height, width) | 0 background, 1 to C the classes, 255 left out |
| `test_mask` | uint8, like `train_mask` | their masks |

The class of value 1 is the first in `class_names`. Other arrays are left alone. Nothing in the file
is unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.errors import DatasetError

Part = TypeVar("Part", bound=SampleSet)
Arrays = Mapping[str, npt.NDArray[Any]]
MakePart = Callable[[Arrays, str, tuple[ClassName, ...]], Part]
"""From a file, the name of a part and the names of classes."""


def load_npz(path: Path) -> Split[LabelledImages]:
    """Read a data set; raise `DatasetError` naming the array that is missing or does not fit."""
    split = _read(path, _labelled)
    train, test = split.train.images.shape, split.test.images.shape
    if len(train) != len(test):
        raise DatasetError(
            f"{path}: test_x: shape {test} beside {train} of train_x; give both as RGB or both as "
            "grey"
        )
    return split


def load_segmentation_npz(path: Path) -> Split[SegmentedImages]:
    """Read a data set with masks; raise `DatasetError` as `load_npz` does."""
    return _read(path, _segmented)


def save_npz(path: Path, split: Split[LabelledImages] | Split[SegmentedImages]) -> None:
    """Write a data set compressed; the law: loading returns what was written."""
    arrays: dict[str, Any] = {"class_names": np.asarray(split.train.class_names, dtype=np.str_)}
    for name, part in (("train", split.train), ("test", split.test)):
        arrays[f"{name}_x"] = part.images
        if isinstance(part, SegmentedImages):
            arrays[f"{name}_mask"] = part.masks
            continue
        arrays[f"{name}_y"] = part.labels
        if part.owners is not None:
            arrays[f"{name}_owner"] = part.owners
    np.savez_compressed(path, **arrays)


def _read(path: Path, make: MakePart[Part]) -> Split[Part]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = _class_names(_array_of(arrays, "class_names"))
            return Split(*(make(arrays, part, names) for part in ("train", "test")))
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}; give an .npz file of the layout in docs/datasets.md"
        ) from error


def _labelled(arrays: Arrays, part: str, names: tuple[ClassName, ...]) -> LabelledImages:
    images = _array_of(arrays, f"{part}_x")
    labels = _whole_numbers(arrays, f"{part}_y", "give integers from 0 on")
    owner, owners = f"{part}_owner", None
    if owner in arrays:
        owners = _whole_numbers(arrays, owner, "give an integer per owner")
    with _naming(part):
        return LabelledImages(images, labels, names, owners)


def _segmented(arrays: Arrays, part: str, names: tuple[ClassName, ...]) -> SegmentedImages:
    images, masks = (_array_of(arrays, f"{part}_{what}") for what in ("x", "mask"))
    with _naming(part):
        return SegmentedImages(images, masks, names)


@contextmanager
def _naming(part: str) -> Iterator[None]:
    try:
        yield
    except DatasetError as error:
        raise DatasetError(f"{part}: {error}") from error


def _whole_numbers(arrays: Arrays, name: str, way_out: str) -> npt.NDArray[np.int64]:
    values = _array_of(arrays, name)
    if values.dtype.kind not in "ui":
        raise DatasetError(f"{name}: {values.dtype}; {way_out}")
    return values.astype(np.int64)


def _class_names(array: npt.NDArray[Any]) -> tuple[ClassName, ...]:
    """Return the names of classes; raise `DatasetError` unless they are different strings."""
    if array.ndim != 1 or array.dtype.kind != "U":
        raise DatasetError(
            f"class_names: {array.dtype} of shape {array.shape}; give a row of strings"
        )
    try:
        names = tuple(ClassName(str(name)) for name in array)
    except InvalidValueError as error:
        raise DatasetError(f"class_names: {error}") from error
    if len(set(names)) != len(names):
        raise DatasetError("class_names: a name is there twice; give each once")
    return names


def _array_of(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    """Return an array of a file; raise `DatasetError` if it is missing."""
    if name not in arrays:
        raise DatasetError(f"{name}: is missing; the arrays are {sorted(arrays)}")
    return arrays[name]

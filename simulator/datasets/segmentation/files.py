"""Pictures with masks on the disk: a data set of any size, of which only names are in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.home.store.blobs import write_durably
from fleetledger.device_agent.samples.sources.masks import check_same_size, decode_mask
from fleetledger.learning.errors import ImageError
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.datasets.pictures import read_picture, size_of
from fleetledger.simulator.datasets.segmentation.samples import (
    LabelledScene,
    SceneSet,
    check_class_names,
    check_mask,
    count_pixels,
)
from fleetledger.simulator.errors import DatasetError

Pixels = NDArray[np.int64]
_KEPT = np.dtype("<u4")
"""A picture of more pixels is refused long before."""


class Pair(NamedTuple):
    """A picture and its mask, as paths relative to the data set's root."""

    picture: str
    mask: str


MaskReader = Callable[[Path], NDArray[np.uint8]]
"""From a file to values as `samples` has them, (h, w); raises `ImageError` or `OSError`."""


def read_indices(path: Path) -> NDArray[np.uint8]:
    """Return the values of an index PNG as they are."""
    return decode_mask(path.read_bytes())


@dataclass(frozen=True)
class SegmentedFiles(SceneSet):
    """Picture and mask files below `root`.

    Files are opened when they are asked for. Values that are no class, and masks of another size
    than their picture, raise `DatasetError` then.
    """

    root: Path
    pairs: tuple[Pair, ...] = field(repr=False)
    class_names: tuple[ClassName, ...]
    read_mask: MaskReader = read_indices

    def __post_init__(self) -> None:
        check_class_names(self.class_names)

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Pixels of each class in each mask, (N, C); opens all masks, once."""
        masks = [pair.mask for pair in self.pairs]
        classes = len(self.class_names)
        return kept_pixels(
            self.root, masks, classes, lambda index: count_pixels(self.mask(index), classes)
        )

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of names and sizes of the files and of class names, in their order."""
        files = [f"{path} {size_of(self.root / path)}" for pair in self.pairs for path in pair]
        return Digest.of("\n".join((*self.class_names, "", *files)).encode())

    def scene(self, index: int) -> LabelledScene:
        """Return one picture with its mask; raise `DatasetError` naming the file that is wrong."""
        picture, mask = self.picture(index), self.mask(index)
        try:
            check_same_size((picture.height, picture.width), mask.shape)
        except ImageError as error:
            raise DatasetError(f"{self.root / self.pairs[index].mask}: {error}") from error
        return LabelledScene(picture, mask)

    def picture(self, index: int) -> Image.Image:
        """Return one picture, of mode RGB; raise `DatasetError` naming a file that is wrong."""
        return read_picture(self.root / self.pairs[index].picture).convert("RGB")

    def mask(self, index: int) -> NDArray[np.uint8]:
        """Return one mask; raise `DatasetError` naming file and value."""
        path = self.root / self.pairs[index].mask
        try:
            mask = self.read_mask(path)
        except ImageError as error:
            raise DatasetError(f"{path}: {error}") from error
        except OSError as error:
            raise DatasetError(f"{path}: cannot be read: {error.strerror}; put it back") from error
        check_mask(mask, len(self.class_names), str(path))
        return mask

    def take(self, indices: NDArray[np.int64]) -> SegmentedFiles:
        """Return the files at `indices`, in that order."""
        taken = SegmentedFiles(
            self.root,
            tuple(self.pairs[index] for index in indices),
            self.class_names,
            self.read_mask,
        )
        if "labels" in self.__dict__:
            taken.__dict__["labels"] = self.labels[indices]
        return taken


def kept_pixels(
    root: Path, masks: Sequence[str], classes: int, count: Callable[[int], Pixels]
) -> Pixels:
    """Return the pixels of each class in each mask, (N, classes).

    `masks` are paths relative to `root`, and `count` opens the mask of a number, on all cores.
    Raises `DatasetError` for files that are gone and for a damaged memory.
    """
    file = cache_folder("mask-pixels") / f"{_digest(root, masks, classes)}.counts"
    try:
        if file.exists():
            return _read(file, len(masks), classes)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            rows = list(pool.map(count, range(len(masks))))
        found = np.array(rows, np.int64).reshape(len(masks), classes)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, found.astype(_KEPT).tobytes())
    except OSError as error:
        raise DatasetError(
            f"{error.filename}: cannot be used: {error.strerror}; mend its permissions"
        ) from error
    return found


def _read(file: Path, masks: int, classes: int) -> Pixels:
    data = file.read_bytes()
    if len(data) != masks * classes * _KEPT.itemsize:
        raise DatasetError(f"{file}: is damaged; delete this file, it is only a cache")
    return np.frombuffer(data, _KEPT).astype(np.int64).reshape(masks, classes)


def _digest(root: Path, masks: Sequence[str], classes: int) -> Digest:
    lines = [f"{root.resolve()}", f"{classes}"]
    for path in masks:
        try:
            status = (root / path).stat()
        except OSError as error:
            raise DatasetError(
                f"{root / path}: cannot be read: {error.strerror}; put it back"
            ) from error
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return Digest.of("\n".join(lines).encode("utf-8", "surrogateescape"))

"""Picture files in folders named after their classes: listing, names, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.file_digests import FileDigests
from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.labels import stratified_split
from fleetledger.simulator.errors import DatasetError

Found = list[tuple[str, ClassName]]
"""Path of a file, relative to the data set's root, and its class."""


def list_classes(root: Path, part: str, hint: str) -> Found:
    """Return the picture files in the class folders of `root/part`, by class and path.

    Pictures may lie deeper in a class folder; names that begin with a dot are left alone. Raises
    `DatasetError` with `hint`, what to put where, if the folder or pictures are missing.
    """
    folder = root / part
    require_folder(folder, hint)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    found = [
        (path, class_name(folder, name))
        for name in names
        if not name.startswith(".")
        for path in _pictures(root, folder / name)
    ]
    if not found:
        raise DatasetError(f"{folder}: no class folders with pictures; {hint}")
    return found


def class_name(place: Path, name: str) -> ClassName:
    """Return `name` as a class; raise `DatasetError` if it cannot be one."""
    try:
        return ClassName(name)
    except InvalidValueError as error:
        raise DatasetError(f"{place}: {error}; rename the class") from error


def require_folder(folder: Path, hint: str) -> None:
    """Raise `DatasetError` with `hint` unless there is such a folder."""
    if not folder.is_dir():
        raise DatasetError(f"{folder}: there is no such folder; {hint}")


def as_files(root: Path, found: Found, names: tuple[ClassName, ...]) -> ImageFiles:
    """Return the files with labels that index `names`."""
    index = {name: label for label, name in enumerate(names)}
    labels = np.array([index[name] for _, name in found], np.int64)
    return ImageFiles(root, tuple(path for path, _ in found), labels, names, FileDigests(root))


def sorted_names(found: Found) -> tuple[ClassName, ...]:
    """Return all classes, sorted by name: their order is that of the labels."""
    return tuple(sorted({name for _, name in found}))


def split_of(root: Path, train: Found, test: Found) -> Split[ImageFiles]:
    """Return files that come in two parts; every class must have training files.

    Raises `DatasetError` for classes that only the test part has.
    """
    names = sorted_names(train)
    unknown = sorted({name for _, name in test} - set(names))
    if unknown:
        raise DatasetError(
            f"{root}: {count_of(len(unknown), 'class', 'classes')} "
            f"{agree(len(unknown), 'has', 'have')} test pictures but none to learn from, such as "
            f"{unknown[0]!r}; remove them, or add training pictures"
        )
    return Split(as_files(root, train, names), as_files(root, test, names))


def split_by_share(root: Path, found: Found, share: float, seed: int) -> Split[ImageFiles]:
    """Return files that come in one part, cut in two by `stratified_split`."""
    files = as_files(root, found, sorted_names(found))
    train, test = stratified_split(files.labels, share, seed)
    return Split(files.take(train), files.take(test))


def _pictures(root: Path, folder: Path) -> Iterator[str]:
    """Yield the picture files below `folder`, sorted, as paths relative to `root`."""
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        relative = Path(parent).relative_to(root)
        for name in sorted(files):
            if not name.startswith(".") and name[name.rfind(".") :].lower() in PICTURES.suffixes:
                yield f"{relative}/{name}"


def _refuse(error: OSError) -> None:
    raise DatasetError(f"{error.filename}: cannot be read: {error.strerror}; mend its permissions")

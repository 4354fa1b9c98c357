"""Omniglot through torchvision: 1,623 characters of 50 alphabets, drawn by twenty people each.

Both of torchvision's parts, background and evaluation, are one data set here, cut in two by
`test_share`. A class is `alphabet-character`. The owner of a picture is its drawer within the
alphabet, 1 to 20, as the file name says: `0001_05.png` is by drawer 5.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.folders import Found, as_files, class_name
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.labels import stratified_split
from fleetledger.simulator.datasets.torchvision_sets import OMNIGLOT, open_torchvision
from fleetledger.simulator.errors import DatasetError


def load_omniglot(root: Path, test_share: float, seed: int) -> Split[ImageFiles]:
    """Read the names of the files; raise `DatasetError` that says what to put where."""
    found: Found = []
    for background in (True, False):
        dataset = open_torchvision(OMNIGLOT, root, background=background)
        found += _characters(root, Path(dataset.target_folder))
    names = tuple(dict.fromkeys(name for _, name in found))
    owners = np.array([_drawer(path) for path, _ in found], np.int64)
    files = replace(as_files(root, found, names), owners=owners)
    train, test = stratified_split(files.labels, test_share, seed)
    return Split(files.take(train), files.take(test))


def _characters(root: Path, folder: Path) -> Found:
    """Return the pictures in `folder/<alphabet>/<character>/`, sorted."""
    found = [
        (str(path.relative_to(root)), class_name(folder, "-".join(path.parts[-3:-1])))
        for path in sorted(folder.glob("*/*/*.png"))
    ]
    if not found:
        raise DatasetError(f"{folder}: no pictures; unpack {folder.name}.zip there")
    return found


def _drawer(path: str) -> int:
    """Return the number behind the underscore of `0001_05.png`."""
    try:
        return int(Path(path).stem.split("_")[1])
    except (IndexError, ValueError) as error:
        raise DatasetError(
            f"{path}: no drawer in its name; give it as <number>_<drawer>"
        ) from error

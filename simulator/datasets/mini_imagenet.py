"""MiniImageNet, 100 classes of ImageNet with 600 pictures each, in either of two usual layouts.

<root>/train/<class>/*, <root>/val/<class>/*, <root>/test/<class>/*
<root>/images/*         with <root>/train.csv, val.csv and test.csv: lines `filename,label`

Where no class is in two parts (the split for few-shot learning: 64, 16 and 20 classes), all
pictures are pooled, and `test_share` of every class becomes test pictures. Else `train` is learned
from, and `test` (or `val` where there is no `test`) is asked about.
"""

from __future__ import annotations

import csv
from pathlib import Path

from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.folders import (
    Found,
    class_name,
    list_classes,
    split_by_share,
    split_of,
)
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.errors import DatasetError

_PARTS = ("train", "val", "test")
_HINT = (
    "put MiniImageNet's pictures into train/<class>/, val/<class>/ and test/<class>/ below "
    "data.root, or into images/ with train.csv, val.csv and test.csv beside it"
)


def load_mini_imagenet(root: Path, test_share: float, seed: int) -> Split[ImageFiles]:
    """Read the names of the files; raise `DatasetError` that says what to put where."""
    parts = {part: found for part in _PARTS if (found := _part(root, part))}
    if not parts:
        raise DatasetError(f"{root}: no MiniImageNet there; {_HINT}")
    classes = [{name for _, name in found} for found in parts.values()]
    if sum(map(len, classes)) == len(set().union(*classes)):
        pooled = sorted((item for found in parts.values() for item in found), key=_by_class)
        return split_by_share(root, pooled, test_share, seed)
    if "train" not in parts:
        raise DatasetError(f"{root}: no training pictures; {_HINT}")
    return split_of(root, parts["train"], parts.get("test") or parts["val"])


def _part(root: Path, part: str) -> Found:
    """Return the files of one part; none if it is not there."""
    if (root / part).is_dir():
        return list_classes(root, part, _HINT)
    table = root / f"{part}.csv"
    return _listed(table) if table.is_file() else []


def _listed(table: Path) -> Found:
    """Read a table of file names and classes."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if not {"filename", "label"} <= set(rows.fieldnames or ()):
            raise DatasetError(f"{table}: columns {rows.fieldnames}; give filename,label")
        return [
            (f"images/{row['filename']}", class_name(table, row["label"] or "")) for row in rows
        ]


def _by_class(item: tuple[str, str]) -> tuple[str, str]:
    return item[1], item[0]

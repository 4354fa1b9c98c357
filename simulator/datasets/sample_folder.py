"""Labelled arrays and texts in files: class folders, and tables of texts.

<root>/train/<class>/*   and <root>/test/<class>/* or <root>/val/<class>/*
<root>/<class>/*         one part, cut in two by `test_share`
<root>.csv, .jsonl       texts with columns `text` and `label`, perhaps `owner`, `domain`, `part`
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleetledger.device_agent.kinds import ARRAY, PICTURES, TEXT, SampleKind
from fleetledger.device_agent.samples.array_files import Shape, read_content, samples_of
from fleetledger.device_agent.samples.sources.folder import files_below
from fleetledger.learning.errors import ArrayError
from fleetledger.learning.numerics.arrays import read_array
from fleetledger.simulator.datasets.folders import class_name, require_folder
from fleetledger.simulator.datasets.given import GivenSamples, split_of_given
from fleetledger.simulator.datasets.image_folder import load_image_folder
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import DatasetError

_TABLES = (".csv", ".jsonl")
_TEST = ("test", "val")
_MOST_FIELD = 1 << 20
Found = list[tuple[Any, str]]
"""Samples, each with its class."""


def load_folder(
    root: Path, test_share: float, seed: int, shape: Shape | None = None
) -> Split[SampleSet]:
    """Read samples of whichever kind lies there; raise `DatasetError`."""
    if root.suffix.lower() in _TABLES:
        return load_text_table(root, test_share, seed)
    require_folder(root, "give a folder with a folder for each class, or a .csv or .jsonl of texts")
    for kind in (TEXT, ARRAY):
        if files_below(root, kind.suffixes):
            return load_samples(root, kind, (test_share, seed), shape)
    return load_image_folder(root, test_share, seed)


def load_samples(
    root: Path, kind: SampleKind, cut: tuple[float, int], shape: Shape | None = None
) -> Split[SampleSet]:
    """Read class folders of texts or arrays; `cut` is the test share and the seed.

    Raises `DatasetError` naming a file that cannot be read, and what to put where.
    """
    assert kind is not PICTURES, "pictures stay in their files"
    hint = f"put {kind.noun}s into train/<class>/ and test/<class>/, or all into <class>/"
    require_folder(root, hint)
    if not (root / "train").is_dir():
        return _split([_class_folders(root, kind, shape, hint)], cut)
    test = next((name for name in _TEST if (root / name).is_dir()), _TEST[0])
    parts = [_class_folders(root / part, kind, shape, hint) for part in ("train", test)]
    return _split(parts, cut)


def load_text_table(path: Path, test_share: float, seed: int) -> Split[SampleSet]:
    """Read texts of a `.csv` or `.jsonl` file; raise `DatasetError` naming the line."""
    rows = _rows(path)
    for number, row in enumerate(rows, 1):
        lacking = [name for name in ("text", "label") if not isinstance(row.get(name), str)]
        if lacking:
            raise DatasetError(
                f"{path}: row {number}: no text in column {lacking[0]!r}; give columns text and "
                "label, and perhaps owner, domain and part (train or test)"
            )
    parts = [[row for row in rows if row.get("part") == part] for part in ("train", "test")]
    if not all(parts):
        parts = [rows]
    extras = {
        name: [[str(row[name]) for row in part] for part in parts]
        for name in ("owner", "domain")
        if all(row.get(name) is not None for row in rows)
    }
    found = [[(row["text"], row["label"]) for row in part] for part in parts]
    return _split(found, (test_share, seed), extras.get("owner"), extras.get("domain"))


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix.lower() == ".csv":
                csv.field_size_limit(min(_MOST_FIELD, sys.maxsize))
                rows = list(csv.DictReader(file))
            else:
                rows = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError, csv.Error) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}; give a CSV file with a line of names, or a JSON "
            "object per line"
        ) from error
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DatasetError(f"{path}: holds no rows with names; give columns text and label")
    return rows


def _split(
    parts: Sequence[Found],
    cut: tuple[float, int],
    owners: Sequence[Sequence[str]] | None = None,
    domains: Sequence[Sequence[str]] | None = None,
) -> Split[SampleSet]:
    pairs = [([sample for sample, _ in part], [name for _, name in part]) for part in parts]
    kind = _kind(pairs[0][0])
    if len(pairs) == 1:
        given = GivenSamples(owners and owners[0], domains and domains[0], None, kind)
        return split_of_given(given, pairs[0], (None, None), cut)
    return split_of_given(
        GivenSamples(owners, domains, None, kind), None, (pairs[0], pairs[1]), cut
    )


def _kind(samples: Sequence[Any]) -> str:
    return "text" if isinstance(samples[0], str) else "array"


def _class_folders(folder: Path, kind: SampleKind, shape: Shape | None, hint: str) -> Found:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    found: Found = [
        (sample, class_name(folder, name))
        for name in names
        if not name.startswith(".")
        for path in files_below(folder / name, kind.suffixes)
        for sample in _samples(path, kind, shape)
    ]
    if not found:
        raise DatasetError(f"{folder}: no class folders with {kind.noun}s; {hint}")
    return found


def _samples(path: Path, kind: SampleKind, shape: Shape | None) -> list[Any]:
    try:
        if kind is TEXT:
            return [path.read_text(encoding="utf-8")]
        named = samples_of(path, shape)
        return [read_array(read_content(sample), ARRAY.suffix) for sample in named]
    except ArrayError as error:
        raise DatasetError(f"{path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}; mend or remove it") from error

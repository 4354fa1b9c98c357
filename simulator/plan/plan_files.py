"""Plans in files: CSV, JSON lines, npz, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.rows import COLUMNS, Column, PlanRows, columns_to_rows

Columns = Mapping[str, Column]


def read_plan_file(file: str, class_names: Sequence[ClassName]) -> PlanRows:
    """Return the rows of a file; raise `PlanError` naming file, row and value."""
    path = Path(file)
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise PlanError(f"stages.file: {file!r}; give a file that ends in {', '.join(_READERS)}")
    try:
        columns = read(path)
    except (OSError, ValueError, KeyError, csv.Error, zipfile.BadZipFile) as error:
        raise PlanError(f"stages.file: {file}: cannot be read: {error}; mend it") from error
    return columns_to_rows(columns, file, class_names)


def _csv(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8-sig") as lines:
        reader = csv.DictReader(lines, strict=True)
        names = [name.strip() for name in reader.fieldnames or ()]
        rows = [list(row.values()) for row in reader]
    broken = next((n for n, row in enumerate(rows, start=1) if len(row) != len(names)), None)
    if broken is not None or any(None in row for row in rows):
        raise ValueError(f"row {broken or 1} has not {count_of(len(names), 'field')}")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _json_lines(path: Path) -> Columns:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line is no object with fields such as stage, device and sample")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _npz(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as held:
        found = {name: held[name] for name in held.files}
    shapes = {array.shape for array in found.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"arrays of shapes {sorted(shapes)}; give {', '.join(COLUMNS)}, each (R,)")
    return {
        name: array if array.dtype.kind in "iu" else array.tolist() for name, array in found.items()
    }


def _parquet(path: Path) -> Columns:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - not everybody has it
    except ImportError as error:
        raise PlanError(
            f"stages.file: {path}: pyarrow is not installed; `pip install pyarrow`, or give CSV"
        ) from error
    table = parquet.read_table(path)
    return {name: table.column(name).to_pylist() for name in table.column_names}


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".npz": _npz,
    ".parquet": _parquet,
}

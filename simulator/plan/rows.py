"""Rows of a plan: stage, device, sample, and where wanted the label and domain of it there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import shorten
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.labels import Indices, Labels
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import PlanError

TRUTH = -1
"""As a label: the one that the sample has."""
NEEDED = ("stage", "device", "sample")
COLUMNS = (*NEEDED, "label", "domain")
Column: TypeAlias = "Sequence[object] | NDArray[Any]"
_DEVICE = re.compile(r"device-([0-9]+)")


@dataclass(frozen=True)
class StageDeal:
    """One stage of a plan: who gets what."""

    classes: tuple[int, ...]
    """Labels that its samples have, or show, as far as the stage is about them."""
    shares: Mapping[int, Indices]
    """Training samples of each device, by its number from 1; ascending."""
    labels: Mapping[int, Indices] | None = None
    """The labels that each device is given with its samples; None where they are the true ones."""
    domains: Mapping[int, Sequence[str]] | None = None
    """Their domains likewise; None where they are those of the data set."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanRows:
    """Rows in any order; every array is (R,)."""

    stage: Indices
    """From 1."""
    device: Indices
    """From 1."""
    sample: Indices
    """Of the training samples, from 0."""
    label: Indices
    """`TRUTH`, or the label that the device is given."""
    domain: NDArray[np.object_]
    """Name; empty where it is that of the data set."""

    def checked(self, train: SampleSet, stages: int, devices: int, source: str) -> PlanRows:
        """Return the rows, sorted; raise `PlanError` where they do not fit the rest."""
        samples, classes = len(train), len(train.class_names)
        if train.labels.ndim == 2:
            raise PlanError(
                f"{source}: rows give samples of one class each, and the pictures of this data set "
                "show several; take plan 'classes'"
            )
        self._within("stage", self.stage, (1, stages), source, "or another stages.count")
        self._within("device", self.device, (1, devices), source, "or another devices.count")
        self._within("sample", self.sample, (0, samples - 1), source, "as the data set has them")
        self._within("label", self.label, (TRUTH, classes - 1), source, "-1 is the true one")
        missing = sorted({*range(1, stages + 1)} - set(self.stage.tolist()))
        if missing:
            raise PlanError(
                f"{source}: stage {missing[0]} of {stages} has no row; give it some, or set "
                f"stages.count to {int(self.stage.max(initial=0))}"
            )
        order = np.lexsort((self.sample, self.device, self.stage))
        rows = self._taken(order)
        keys = np.stack([rows.stage, rows.device, rows.sample])
        twice = np.flatnonzero((np.diff(keys) == 0).all(axis=0))
        if len(twice):
            stage, device, sample = keys[:, twice[0]].tolist()
            raise PlanError(
                f"{source}: sample {sample} comes to device {device} in stage {stage} twice; leave "
                "one row out"
            )
        return rows

    def deals(self, labels: Labels) -> list[StageDeal]:
        """Return the stages of checked rows; `labels` are the true ones of all samples."""
        given = np.where(self.label == TRUTH, labels[self.sample], self.label)
        differs = bool((given != labels[self.sample]).any())
        named = bool((self.domain != "").any())
        deals = []
        for stage in np.unique(self.stage):
            here = self.stage == stage
            of = {
                int(k): np.flatnonzero(here & (self.device == k))
                for k in np.unique(self.device[here])
            }
            deals.append(
                StageDeal(
                    classes=tuple(int(label) for label in np.unique(given[here])),
                    shares={device: self.sample[rows] for device, rows in of.items()},
                    labels={k: given[rows] for k, rows in of.items()} if differs else None,
                    domains={k: self.domain[rows].tolist() for k, rows in of.items()}
                    if named
                    else None,
                )
            )
        return deals

    def _taken(self, order: Indices) -> PlanRows:
        return replace(self, **{name: getattr(self, name)[order] for name in COLUMNS})

    def _within(
        self, name: str, values: Indices, bounds: tuple[int, int], source: str, else_: str
    ) -> None:
        wrong = np.flatnonzero((values < bounds[0]) | (values > bounds[1]))
        if len(wrong):
            raise PlanError(
                f"{source}: row {wrong[0] + 1}: {name} {values[wrong[0]]}; give {bounds[0]} to "
                f"{bounds[1]}, {else_}"
            )


def rows_of(found: object, source: str) -> PlanRows:
    """Return what a function gave as rows; raise `PlanError` for what are none.

    It gives tuples of three to five, or an array of integers (R, 3) or (R, 4).
    """
    if isinstance(found, np.ndarray):
        if found.ndim != 2 or not 3 <= found.shape[1] <= 4 or found.dtype.kind not in "iu":
            raise PlanError(
                f"{source}: {found.dtype} of shape {found.shape}; give integers (R, 3): stage, "
                "device and sample, or (R, 4) with a label"
            )
        columns: dict[str, Column] = {
            name: found[:, place].astype(np.int64)
            for place, name in enumerate(COLUMNS[: found.shape[1]])
        }
        return columns_to_rows(columns, source)
    if not isinstance(found, Iterable):
        raise PlanError(f"{source}: gave {shorten(found)}; give rows (stage, device, sample)")
    rows = [tuple(row) if isinstance(row, Iterable) else (row,) for row in found]
    widths = {len(row) for row in rows}
    if len(widths) > 1 or not widths <= {3, 4, 5}:
        raise PlanError(
            f"{source}: numbers of fields in a row: {', '.join(map(str, sorted(widths)))}; give "
            f"all rows three to five: {', '.join(COLUMNS)}"
        )
    width = widths.pop() if widths else len(NEEDED)
    return columns_to_rows(
        {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS[:width])}, source
    )


def columns_to_rows(
    columns: Mapping[str, Column], source: str, class_names: Sequence[ClassName] = ()
) -> PlanRows:
    """Return rows from their columns; raise `PlanError` naming a column, row and value.

    A device is a number or `device-3`, a label a number or a name of `class_names`.
    """
    missing = [name for name in NEEDED if name not in columns]
    strange = [name for name in columns if name not in COLUMNS]
    if missing or strange:
        raise PlanError(
            f"{source}: columns {', '.join(columns) or 'none'}; give {', '.join(NEEDED)}, and if "
            "wanted label and domain"
        )
    rows = len(columns["stage"])
    if not rows:
        raise PlanError(f"{source}: no row; give {count_of(1, 'row')} for each stage at least")
    label_of = {str(name): label for label, name in enumerate(class_names)}
    numbers = {
        name: _numbers(columns.get(name), name, rows, label_of if name == "label" else {}, source)
        for name in COLUMNS[:-1]
    }
    domains = np.array(
        ["" if value is None else str(value) for value in columns.get("domain", [""] * rows)],
        np.object_,
    )
    return PlanRows(**numbers, domain=domains)


def _numbers(
    values: Column | None,
    name: str,
    rows: int,
    named: Mapping[str, int],
    source: str,
) -> Indices:
    if values is None:
        return np.full(rows, TRUTH, np.int64)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64)
    return np.array(
        [_number(value, name, row, named, source) for row, value in enumerate(values, start=1)],
        np.int64,
    )


def _number(value: object, name: str, row: int, named: Mapping[str, int], source: str) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    text = "" if value is None else str(value).strip()
    if text in named:
        return named[text]
    device = _DEVICE.fullmatch(text)
    if name == "device" and device:
        return int(device[1])
    if name == "label" and not text:
        return TRUTH
    if not re.fullmatch(r"-?[0-9]+(\.0)?", text):
        _refuse(value, name, row, source)
    return int(float(text))


def _refuse(value: object, name: str, row: int, source: str) -> NoReturn:
    else_ = {"device": " or device-3", "label": " or the name of a class"}.get(name, "")
    raise PlanError(f"{source}: row {row}: {name} {shorten(value)}; give a number{else_}")

"""Training images set apart, which rates are chosen by; no test image is seen for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.npz import load_npz, save_npz

KEPT, HELD_OUT = 150, 50
"""Of each class: training images that stay, and those that take the place of test images."""


def held_out(split: Split[LabelledImages]) -> Split[LabelledImages]:
    """Return the training part alone, the last 50 of each class in place of the test part."""
    rank = _rank(split.train.labels)
    return Split(
        train=_taken(split.train, rank < KEPT),
        test=_taken(split.train, (rank >= KEPT) & (rank < KEPT + HELD_OUT)),
    )


def held_out_file(core: Path, path: Path) -> Path:
    """Write the held-out split of an `.npz` file, unless it is there; return its path."""
    if not path.exists():
        whole = load_npz(core)
        assert isinstance(whole.train, LabelledImages)
        assert isinstance(whole.test, LabelledImages)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_whole(path, held_out(Split(whole.train, whole.test)))
    return path


def save_whole(path: Path, split: Split[LabelledImages]) -> None:
    """Write a split, so that an interrupted write leaves no file of that name."""
    building = path.with_suffix(".part.npz")
    save_npz(building, split)
    building.replace(path)


def _rank(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return which of its class each sample is, (n,), counted from 0."""
    rank = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rank[rows] = np.arange(len(rows))
    return rank


def _taken(part: LabelledImages, kept: npt.NDArray[Any]) -> LabelledImages:
    return LabelledImages(part.images[kept], part.labels[kept], part.class_names)

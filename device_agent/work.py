"""Computing a part: pictures, frozen model, and the method's device half; nothing leaves memory.

Pictures are read and run a few at a time; what is kept of each is one row of features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

import numpy as np

from device_agent.core.records import ImageToCount
from device_agent.images import Outcome, Picture, read_pictures
from device_agent.inference import Floats, Frozen
from schemas.assignments import Assignment
from schemas.values import ClassName, Digest


@dataclass(frozen=True)
class Extracted:
    """Features (N, M) with the class name of each row, and what could not be read."""

    features: Floats
    labels: tuple[ClassName, ...]
    used: frozenset[Digest]
    unusable: tuple[tuple[Digest, str], ...]


@dataclass
class _Rows:
    """What was extracted so far."""

    features: list[Floats] = field(default_factory=list)
    images: list[ImageToCount] = field(default_factory=list)
    unusable: list[tuple[Digest, str]] = field(default_factory=list)


def extract(
    assignment: Assignment, images: Sequence[ImageToCount], folder: Path, frozen: Frozen, batch: int
) -> Extracted:
    """Return the features of all images that can be read and are still what they were.

    Classes of which too few are left for a part are left out. Raises `LoadError` where the frozen
    model does not run.
    """
    rows = _Rows()
    for chunk in _batches(images, batch):
        _extract_batch(assignment, chunk, folder, frozen, rows)
    features = np.concatenate(rows.features) if rows.features else np.empty((0, 0), np.float32)
    numbers = Counter(image.class_name for image in rows.images)
    enough = [numbers[i.class_name] >= assignment.min_samples_per_class for i in rows.images]
    kept = list(compress(rows.images, enough))
    return Extracted(
        features if all(enough) else features[enough],
        tuple(image.class_name for image in kept),
        frozenset(image.digest for image in kept),
        tuple(rows.unusable),
    )


def _extract_batch(
    assignment: Assignment,
    images: Sequence[ImageToCount],
    folder: Path,
    frozen: Frozen,
    rows: _Rows,
) -> None:
    pictures = [Picture(folder / image.path, image.digest) for image in images]
    outcomes: list[Outcome] = list(read_pictures(pictures, assignment.preprocessing))
    readable = [outcome for outcome in outcomes if outcome.pixels is not None]
    rows.unusable += [
        (images[outcome.index].digest, outcome.unusable)
        for outcome in outcomes
        if outcome.unusable is not None
    ]
    if readable:
        pixels = np.stack([outcome.pixels for outcome in readable if outcome.pixels is not None])
        rows.features.append(frozen.features(pixels))
        rows.images += [images[outcome.index] for outcome in readable]


def _batches(images: Sequence[ImageToCount], size: int) -> Iterator[Sequence[ImageToCount]]:
    yield from (images[start : start + size] for start in range(0, len(images), size))

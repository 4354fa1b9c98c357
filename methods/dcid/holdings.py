"""A site's images as DCID sees them: new ones of the session's classes, and anchors of old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from learning.errors import LearningError
from learning.numerics.herding import herd
from methods.dcid.memory import Memory
from methods.errors import MethodError
from methods.kept_files import Lists
from methods.training_half import LocalData, Order
from schemas.values import ClassName, Digest

Features = Callable[[list[int]], npt.NDArray[np.float32]]
"""From rows of the local data to their features (n, d) under a model."""


def rows_by_class(data: LocalData) -> dict[ClassName, list[int]]:
    """Return the rows of each class, in the order of the data."""
    rows: dict[ClassName, list[int]] = defaultdict(list)
    for row, name in enumerate(data.class_names):
        rows[name].append(row)
    return dict(rows)


def new_rows(order: Order, data: LocalData) -> list[int]:
    """Return the rows of D_m^(t): images of the session's classes."""
    new = set(order.stage_class_names)
    return [row for row, name in enumerate(data.class_names) if name in new]


def anchor_rows(order: Order, data: LocalData, memory: Memory) -> list[int]:
    """Return the rows of A_m^(t-1): anchors of classes that the head had before the session."""
    new, known = set(order.stage_class_names), set(order.round.class_names)
    places = _places(data)
    return [
        places[name, digest]
        for name, digests in sorted(memory.anchors.items())
        if name in known and name not in new
        for digest in digests
        if (name, digest) in places
    ]


def present(memory: Memory, data: LocalData) -> Memory:
    """Return the memory without anchors whose images are gone or have another class."""
    places = _places(data)
    return memory.kept(lambda name, digest: (name, digest) in places)


def missing_anchors(order: Order, data: LocalData, memory: Memory) -> list[ClassName]:
    """Return old classes of which there are images and no anchors.

    So it is where a base session was trained elsewhere, and with a site that joins late.
    """
    old = set(order.round.class_names) - set(order.stage_class_names)
    return sorted(old.intersection(data.class_names) - set(memory.anchors))


def herded(data: LocalData, names: Iterable[ClassName], features: Features, count: int) -> Lists:
    """Return anchors of classes by (2): each next brings the mean nearest to the class's.

    Features are taken as they are. Raises `MethodError` where they are not finite.
    """
    rows, lists = rows_by_class(data), {}
    for name in names:
        own = rows.get(name, [])
        if own and count:
            try:
                chosen = herd(features(own), count, normalised=False)
            except LearningError as error:
                raise MethodError(f"anchors: {error}") from error
            lists[name] = tuple(data.digests[own[place]] for place in chosen)
    return lists


def _places(data: LocalData) -> dict[tuple[ClassName, Digest], int]:
    named = zip(data.class_names, data.digests, strict=True)
    return {(name, digest): row for row, (name, digest) in enumerate(named)}

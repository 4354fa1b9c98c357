"""Which pictures belong to which task: in the overlapped setting, all with any of its classes.

So a picture comes again with another task, and its mask then shows other classes
(`simulator.datasets.segmentation.masks`). In the disjoint setting a picture waits for the task
with the last of its classes, as in Cermelli et al. (MiB, CVPR 2020). `presence` is bool, (N, C):
picture by class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Presence = NDArray[np.bool_]


def pictures_with(presence: Presence, labels: Sequence[int]) -> Indices:
    """Return the pictures with any pixel of any of these classes, ascending.

    Of training pictures with a task's classes, of test pictures with all classes seen so far.
    """
    return np.flatnonzero(presence[:, list(labels)].any(axis=1)).astype(np.int64)


def without_later(presence: Presence, later: Sequence[int]) -> Presence:
    """Return the presence without the pictures with a class of `later`: the disjoint setting."""
    return presence & ~presence[:, list(later)].any(axis=1, keepdims=True)


def count_unreached(
    presence: Presence, labels: Sequence[int], shares: Iterable[Indices]
) -> tuple[int, tuple[int, ...]]:
    """Return how many pictures of a task no device has, and the classes that nobody has."""
    held = np.zeros(len(presence), np.bool_)
    for share in shares:
        held[share] = True
    unreached = int((~held[pictures_with(presence, labels)]).sum())
    nowhere = tuple(label for label in labels if not presence[held, label].any())
    return unreached, nowhere

"""Masks of a task: its own classes, and of all others nothing.

In a task of class-incremental segmentation a device sees the task's own classes; pixels of earlier
and of later classes are labelled background (Cermelli et al. 2020 call it the background shift).
Test masks show all classes seen so far.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, IGNORED, value_of


def show_classes(masks: NDArray[np.uint8], labels: Iterable[int]) -> NDArray[np.uint8]:
    """Return masks, of any shape, where all but these labels is background; 255 stays."""
    shown = np.full(256, BACKGROUND, np.uint8)
    shown[IGNORED] = IGNORED
    for label in labels:
        shown[value_of(label)] = value_of(label)
    return shown[masks]

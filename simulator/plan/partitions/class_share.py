"""Every device draws some of the classes and holds their images, as in LGA and FBL."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.plan.shares import part_of
from fleetledger.simulator.scenario.sections import PartitionSettings

Indices = NDArray[np.int64]


def partition_by_class_share(
    labels: Indices, devices: int, settings: PartitionSettings, random: np.random.Generator
) -> list[Indices]:
    """Let every device draw `class_share` of the classes, and `image_share` of their images.

    `labels` is (N,). Both shares are rounded down, but never below one: LGA's int(0.6 * classes)
    with all images of each, FBL's 0.5 of the classes with 60 % of their images. Devices draw for
    themselves, so several may hold one image, and an image whose class nobody drew, or which
    nobody drew, is left out of the stage, as in the program of LGA.
    """
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [_draw(classes, settings, random) for _ in range(devices)]


def _draw(
    classes: list[Indices], settings: PartitionSettings, random: np.random.Generator
) -> Indices:
    """Return what one device holds, ascending."""
    number = max(1, part_of(settings.class_share, len(classes)))
    drawn = random.permutation(len(classes))[:number]
    return np.sort(np.concatenate([_images(classes[c], settings, random) for c in drawn]))


def _images(members: Indices, settings: PartitionSettings, random: np.random.Generator) -> Indices:
    number = max(1, part_of(settings.image_share, len(members)))
    return random.permutation(members)[:number]

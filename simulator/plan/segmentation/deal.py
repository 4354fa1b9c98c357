"""A task's pictures for the devices that get some, by FBL's shares.

Every device draws classes of the task, and then pictures among those with any pixel of any of them.
Devices draw for themselves, so several may hold one picture. Drawn classes only choose pictures:
masks show all classes of the task.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.plan.segmentation.overlapped import Indices, Presence, pictures_with
from fleetledger.simulator.plan.shares import part_of
from fleetledger.simulator.scenario.sections import PartitionSettings


def deal_pictures(
    presence: Presence,
    labels: Sequence[int],
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> list[Indices]:
    """Return the pictures of every device, ascending.

    A device draws `class_share` of the classes in `labels` and `image_share` of the pictures with
    them; both are rounded down, but never below one. Every class must have a picture.
    """
    return [_draw(presence, np.array(labels), settings, random) for _ in range(devices)]


def _draw(
    presence: Presence,
    labels: NDArray[np.int64],
    settings: PartitionSettings,
    random: np.random.Generator,
) -> Indices:
    drawn = random.permutation(labels)[: max(1, part_of(settings.class_share, len(labels)))]
    pictures = pictures_with(presence, drawn.tolist())
    number = max(1, part_of(settings.image_share, len(pictures)))
    return np.sort(random.permutation(pictures)[:number])

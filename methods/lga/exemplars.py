"""Which images a device keeps of its earlier classes: herding, and lists that shrink.

With n classes each has floor(|M| / n) exemplars, so that a memory of |M| images is always full and
lists become shorter with every task: a prefix of a herded list is the list of fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.herding import herd
from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.memory import Memory
from fleetledger.methods.lga.settings import MemorySettings
from fleetledger.schemas.values import ClassName, Digest

Features = npt.NDArray[Any]
Chooses = Callable[[Features, int], list[int]]


def per_class(settings: MemorySettings, classes: int) -> int:
    """Return how many exemplars each of so many classes has."""
    return settings.memory_per_class or settings.memory // max(1, classes)


def with_exemplars(
    settings: MemorySettings,
    memory: Memory,
    features: Mapping[ClassName, Features],
    digests: Mapping[ClassName, tuple[Digest, ...]],
    choose: Chooses,
) -> Memory:
    """Return the memory with exemplars of further classes, by the features (n, d) of their images.

    `choose` says which rows of features are kept, so many at most. Raises `MethodError` for
    features that are not finite.
    """
    count = per_class(settings, len({*memory.exemplars, *features}))
    lists = {
        name: tuple(digests[name][row] for row in choose(features[name], count))
        for name in sorted(features)
    }
    return memory.with_exemplars(lists, count)


def herd_repeating(features: Features, count: int) -> list[int]:
    """Return the rows that herding chooses when a row may be chosen again, as released.

    `count` of them, however few rows (n, d) there are, by the rule of `learning.numerics.herding`.
    """
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features.astype(np.float64) / np.where(lengths == 0, 1, lengths)
    target, total, chosen = unit.mean(axis=0), np.zeros(unit.shape[1]), []
    for size in range(1, count + 1):
        best = int(np.linalg.norm(target - (total + unit) / size, axis=1).argmin())
        chosen.append(best)
        total = total + unit[best]
    return chosen


def chosen_rows(settings: MemorySettings, features: Features, count: int) -> list[int]:
    """Return the rows that the settings' herding chooses; raise `MethodError`."""
    if settings.herding == "repeating":
        return herd_repeating(features, count)
    try:
        return herd(features, count)
    except LearningError as error:
        raise MethodError(f"exemplars: {error}") from error

"""Who holds which classes: the plan's counts in an order and a size that can be drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.seed_metrics import Distribution

SHOWN_IN_ORDER = 30
"""Up to so many devices keep the order of joining; more are sorted by what they hold."""
MOST_SHOWN = 200
"""Of more devices, evenly many of the sorted are shown."""


def distribution(counts: PlanCounts, class_names: Sequence[ClassName]) -> Distribution:
    """Return samples by device and class; `class_names` in the order of coming.

    Raises `MetricsError` for a class that the plan does not know.
    """
    label = {name: number for number, name in enumerate(counts.class_names)}
    unknown = [name for name in class_names if name not in label]
    if unknown:
        raise MetricsError(f"classes: {unknown[:3]} are not in the plan; give its own names")
    classes = [label[name] for name in class_names]
    held = counts.so_far(len(counts.samples))[:, classes]
    shown = _chosen(held)
    return Distribution(
        devices=tuple(counts.devices[number] for number in shown),
        devices_in_fleet=len(counts.devices),
        class_names=tuple(class_names),
        samples=tuple(tuple(int(value) for value in held[number]) for number in shown),
    )


def _chosen(held: NDArray[np.int64]) -> list[int]:
    """Return rows: sorted by the first class that is held, then by the class held most."""
    devices = len(held)
    if devices <= SHOWN_IN_ORDER:
        return list(range(devices))
    some = held > 0
    first = np.where(some.any(axis=1), some.argmax(axis=1), held.shape[1])
    order = np.lexsort((held.argmax(axis=1), first))
    if devices > MOST_SHOWN:
        order = order[np.linspace(0, devices - 1, MOST_SHOWN).round().astype(np.int64)]
    return [int(number) for number in order]

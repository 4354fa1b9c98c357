"""Which classes and counts a payload may name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fleetledger.methods.statistics.sides import StatisticsAssignment
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.values import ClassName


def check_classes(
    names: Sequence[ClassName],
    counts: npt.NDArray[np.int64],
    assignment: StatisticsAssignment,
    members: int = 0,
) -> None:
    """Raise `TensorError` unless names are sorted and assigned, and counts within their limits.

    Of the sum of so many members of a cohort, some may have taken out what they gave before.
    """
    if list(names) != sorted(set(names)) or len(names) != len(counts):
        raise TensorError(
            f"class_names: {count_of(len(names), 'name')} for {len(counts)} counts; give one per "
            "class, sorted"
        )
    unknown = sorted(set(names) - set(assignment.class_names)) if assignment.class_names else []
    if unknown:
        raise TensorError(f"class_names: {unknown[0]!r} was not assigned; name the class first")
    most = assignment.settings.max_samples_per_part
    if members:
        if int(np.abs(counts).max(initial=0)) > members * most:
            raise TensorError(
                f"counts: up to {count_of(int(np.abs(counts).max()), 'sample')}; "
                f"{count_of(members, 'member')} give at most {members * most}"
            )
        return
    if assignment.noise is not None:  # then every class has one at least
        most += len(names)
    least = assignment.settings.min_samples_per_class
    if (counts < least).any() or (counts > most).any() or int(counts.sum()) > most:
        raise TensorError(
            f"counts: {int(counts.min())} to {count_of(int(counts.max()), 'sample')} per class; "
            f"give at least {least} of each and at most {most} together, or send several parts"
        )


def most_classes(assignment: StatisticsAssignment, members: int = 1) -> int:
    """Return the most classes of a part, or of so many together: each has a sample in it."""
    if assignment.noise is not None:  # every class of the fleet has a row
        return MAX_CLASSES
    return min(MAX_CLASSES, members * assignment.settings.max_samples_per_part)

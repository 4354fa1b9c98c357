"""What a device sends under the estimated form: sums and counts of groups, class by class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.exactness import INT64_LARGEST
from fleetledger.runtime.count_words import count_of

Integers = npt.NDArray[np.int64]

DEALER_DIGITS = 16


def dealer_of(seed: bytes) -> str:
    """Return what stands for a device in one stage: all its parts there have it, no other has."""
    return hashlib.sha256(seed).hexdigest()[:DEALER_DIGITS]


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Rows of one part: the sum of h (R x M) and the samples (R,) of one class in one group.

    Rows lie class by class: the first `per_class[0]` are those of the first class, and so on; a
    group without the class has no row. `groups` is how many there are in all; where empty ones
    count, `dealer` stands for the device, and `row_groups` (R,) says which group each row is of.
    """

    per_class: Integers
    counts: Integers
    sums: ScaledIntegers
    groups: int
    dealer: str = ""
    row_groups: Integers | None = None

    def class_counts(self) -> Integers:
        """Return the samples of each class (C,)."""
        return np.add.reduceat(self.counts, self._starts())

    def class_sums(self) -> ScaledIntegers:
        """Return the sum of h of each class (C x M); raise `RangeError` beyond int64."""
        if self.sums.largest * len(self.counts) > INT64_LARGEST:
            raise RangeError(
                f"group_sums: {count_of(len(self.counts), 'row')} of up to {self.sums.largest} may "
                "leave int64"
            )
        totals = np.add.reduceat(self.sums.values, self._starts(), axis=0)
        return ScaledIntegers(totals, self.sums.exponent)

    def _starts(self) -> Integers:
        """Return the first row of each class; every class has one."""
        return np.cumsum(self.per_class) - self.per_class

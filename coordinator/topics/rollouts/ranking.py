"""Values of devices in order, so that more than half of them speak, and no single device does."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from fractions import Fraction

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.topics.rollouts.scope import Outcome
from fleetledger.schemas.values import DeviceId

PARTS = 1 << 32
"""Units of a value in 1; what lies between two of them is cut off, so that numbers stay short."""


@dataclass
class Ranking:
    """One value of each device, the lowest first, in units of 1 / `PARTS`."""

    items: list[tuple[int, DeviceId]] = field(default_factory=list)
    total: int = 0

    def add(self, value: Fraction, device: DeviceId) -> None:
        """Take in what a device has."""
        units = math.floor(value * PARTS)
        insort(self.items, (units, device))
        self.total += units

    def __len__(self) -> int:
        return len(self.items)

    @property
    def median(self) -> Fraction:
        """The value in the middle, the lower one of two; there is at least one."""
        return Fraction(self.items[(len(self) - 1) // 2][0], PARTS)

    @property
    def mean(self) -> Fraction:
        """The mean of at least one value."""
        return Fraction(self.total, len(self) * PARTS)

    @property
    def worst_mean(self) -> Fraction:
        """The highest mean that is left without any one device; of one alone its own value."""
        if len(self) == 1:
            return self.mean
        others = Fraction(self.total - self.items[0][0], (len(self) - 1) * PARTS)
        return max(self.mean, others)

    def exceeds(self, limit: Fraction, of: int = 0) -> bool:
        """Return whether more than half of `of` devices, or of those here, lie above a limit.

        `of` counts those that have told nothing yet, too.
        """
        return 2 * self._above(limit) > max(of, len(self))

    def rests_on(self, limit: Fraction, of: int = 0) -> DeviceId | None:
        """Return a device without which `exceeds` would say otherwise; None where there is none."""
        devices, above = max(of, len(self)), self._above(limit)
        if 2 * above > devices:
            return None if 2 * (above - 1) > devices - 1 else self.items[-1][1]
        return self.items[0][1] if above and 2 * above > devices - 1 else None

    def outcome(self, limit: Fraction, of: int = 0) -> Outcome:
        """Return what a limit says: it fails on more than half of `of` devices.

        It passes by those here, whichever one of them is left out.
        """
        if self.exceeds(limit, of):
            return "fail"
        stands = not self.exceeds(limit) and self.rests_on(limit) is None
        return "pass" if stands else "inconclusive"

    def says(self, limit: Fraction, of: int) -> tuple[Outcome, DeviceId | None, str]:
        """Return the outcome of a limit, the device that it rests on, and both in words."""
        outcome = self.outcome(limit, of)
        alone = self.rests_on(limit, of if outcome == "fail" else 0)
        text = of_one(alone)
        if outcome == "inconclusive" and self.exceeds(limit):
            text = f" It fails where more than half of {count_of(of)} exceed that."
        return outcome, alone, text

    def _above(self, limit: Fraction) -> int:
        """Return how many devices lie above a limit."""
        units = math.floor(limit * PARTS)
        return len(self) - bisect_right(self.items, units, key=lambda item: item[0])


def of_one(alone: DeviceId | None) -> str:
    """Return the sentence that an outcome rests on one device, or nothing."""
    return f" Without {alone} it would not be so." if alone else ""

"""Values of devices in order, so that the one in the middle speaks, and no single device does."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from schemas.values import DeviceId

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

    def exceeds(self, limit: Fraction) -> bool:
        """Return whether more than half of the devices lie above a limit."""
        return len(self) > 0 and self.median > limit

    def rests_on(self, limit: Fraction) -> DeviceId | None:
        """Return a device without which `exceeds` would say otherwise; None where there is none."""
        if self.exceeds(limit):
            stays = len(self) > 1 and self.items[(len(self) - 2) // 2][0] > limit * PARTS
            return None if stays else self.items[-1][1]
        changes = len(self) > 1 and self.items[len(self) // 2][0] > limit * PARTS
        return self.items[0][1] if changes else None

    def outcome(self, limit: Fraction) -> Literal["pass", "fail", "inconclusive"]:
        """Return what a limit on the median says; a pass stands without any one device."""
        if self.exceeds(limit):
            return "fail"
        return "pass" if self.rests_on(limit) is None else "inconclusive"


def of_one(alone: DeviceId | None) -> str:
    """Return the sentence that an outcome rests on one device, or nothing."""
    return f" Without {alone} it would not be so." if alone else ""

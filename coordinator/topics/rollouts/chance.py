"""Devices of a group that report something by chance, or because they lie.

Groups follow from a hash of the rollout and a device's name. So a share of all devices is in a
group as if drawn by chance. Numbers are binomial tails, to 50 digits on every machine.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

UNLIKELY = Decimal(1) / 200
"""Chance with which more devices than `most_by_chance` report it."""
_DIGITS = Context(prec=50)


@lru_cache(1024)
def most_by_chance(devices: int, share: Fraction) -> int:
    """Return the number of devices that chance exceeds in at most one of 200 groups.

    Each of `devices` does so with the probability `share`, independently of the others.
    """
    if share >= 1:
        return devices
    with localcontext(_DIGITS):
        chance = Decimal(share.numerator) / Decimal(share.denominator)
        term = (1 - chance) ** devices
        more, count = 1 - term, 0
        while more > UNLIKELY:
            term *= (devices - count) * chance / ((count + 1) * (1 - chance))
            more -= term
            count += 1
    return count

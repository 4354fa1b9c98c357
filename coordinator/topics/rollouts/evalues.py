"""Evidence of devices, looked at as often as one likes, that a model is worse.

Each device gives one number z from -1 to 1, above 0 where the model is worse. A stake s multiplies
its capital by 1 + s z with each device, and the e-value is the mean capital of three stakes:

    e = mean over s of the product over devices of (1 + s z)

Assumed is that z is at most 0 on average, given the reports before. Then each capital is a
supermartingale that begins with 1, so the chance that e *ever* reaches t is at most 1/t (Ville,
1939; for bounded means Waudby-Smith & Ramdas, 2024, arXiv 2010.09686). Nothing is assumed of the
images within a device. With a share of liars up to `liars`, z is at most that share on average, and
each factor is divided by 1 + s liars.

Kept are numbers of devices by z, exact fractions, so the order of reports changes nothing.
Logarithms decide far from a threshold, exact fractions close to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

STAKES = (Fraction(1, 5), Fraction(1, 2), Fraction(4, 5))
DevicesByLoss = Mapping[Fraction, int]
"""Numbers of devices by their z."""
NOBODY = Fraction(0)
_NEAR = 1e-6
"""Distance in nats from a threshold within which exact fractions decide."""
_DIGITS = Context(prec=50)


def net_loss(worse: int, better: int, images: int, cap: Fraction) -> Fraction:
    """Return z of a device with at least one image: its net loss in shares of the cap.

    `worse` are images that only the active model has right, `better` those that only the candidate
    has right.
    """
    return max(Fraction(-1), min(Fraction(1), Fraction(worse - better, images) / cap))


def shortfall(right: int, images: int, least: Fraction) -> Fraction:
    """Return z of a device for "at least the share `least` is right", which is below 1.

    It is at most 0 on average wherever that holds on average, as only losses are cut off.
    """
    return min(Fraction(1), (least - Fraction(right, images)) / (1 - least))


def mirrored(devices: DevicesByLoss) -> dict[Fraction, int]:
    """Return the devices seen from the other side: as evidence that the model is better."""
    return {-z: count for z, count in devices.items()}


def signs(devices: DevicesByLoss) -> dict[Fraction, int]:
    """Return the devices as votes: 1 where the model is worse, -1 where it is better."""
    found: dict[Fraction, int] = {}
    for z, count in devices.items():
        sign = Fraction((z > 0) - (z < 0))
        found[sign] = found.get(sign, 0) + count
    return found


def log_evidence(devices: DevicesByLoss, liars: Fraction = NOBODY) -> float:
    """Return the natural logarithm of the e-value; its last digits are the machine's."""
    gained = [(_log_factors(z), count) for z, count in devices.items()]
    total = sum(devices.values())
    logs = [
        math.fsum(count * factors[which] for factors, count in gained)
        - total * math.log1p(float(stake * liars))
        for which, stake in enumerate(STAKES)
    ]
    most = max(logs)
    return most + math.log(math.fsum(math.exp(log - most) for log in logs) / len(STAKES))


def reaches(
    devices: DevicesByLoss, threshold: Fraction, liars: Fraction = NOBODY, without: int = 0
) -> bool:
    """Return whether the e-value is at least `threshold`, whichever `without` devices one omits.

    The same on every machine.
    """
    others = dict(devices)
    for _ in range(min(without, sum(devices.values()))):
        most = max(z for z, count in others.items() if count)
        others[most] -= 1
    distance = log_evidence(others, liars) - log_of(threshold)
    if abs(distance) > _NEAR:
        return distance > 0
    total = sum(others.values())
    capitals = (
        math.prod(((1 + stake * z) ** count for z, count in others.items()), start=Fraction(1))
        / (1 + stake * liars) ** total
        for stake in STAKES
    )
    return sum(capitals, Fraction(0)) / len(STAKES) >= threshold


def reaches_but_for_one(
    devices: DevicesByLoss, threshold: Fraction, liars: Fraction = NOBODY
) -> bool:
    """Return whether a threshold is reached only without the device of the lowest z.

    That device divides the e-value by at most 5, the inverse of 1 less the largest stake.
    """
    lowest = min(devices, default=NOBODY)
    if lowest >= 0 or reaches(devices, threshold, liars):
        return False
    return reaches({**devices, lowest: devices[lowest] - 1}, threshold, liars)


def reaches_in_spite_of_one(
    devices: DevicesByLoss, threshold: Fraction, liars: Fraction = NOBODY
) -> bool:
    """Return whether a threshold is reached without the lowest z, and votes reach twice as much.

    The e-value of all but the lowest is none, but that of votes is: where z is as often above 0 as
    below, both are reached with a chance of half of 1/t at most. Either way one omits the highest,
    too.
    """
    lowest = min(devices, default=NOBODY)
    if lowest >= 0 or not reaches(signs(devices), 2 * threshold, liars, without=1):
        return False
    return reaches({**devices, lowest: devices[lowest] - 1}, threshold, liars, without=1)


@lru_cache(256)
def fewest(threshold: Fraction, liars: Fraction = NOBODY, most: Fraction = Fraction(1)) -> int:
    """Return how many devices can reach a threshold, if each of them has the z `most`."""
    count = 1
    while not reaches({most: count}, threshold, liars):
        count += 1
    return count


def log_evidence_of_images(worse: int, better: int, alike: int) -> Decimal:
    """Return the logarithm of what images say by themselves, to 50 digits on every machine.

    Assumed is that what they show is independent, and that at most `alike` images show the same
    thing: then a thing's factor, the product of (1 +- s)^(1/alike) over its images, is at most 1 on
    average, by the inequality of arithmetic and geometric means.
    """
    with localcontext(_DIGITS):
        logs = [
            (worse * _ln(1 + stake) + better * _ln(1 - stake)) / Decimal(alike) for stake in STAKES
        ]
        most = max(logs)
        capitals = sum(((log - most).exp() for log in logs), Decimal(0))
        return most + (capitals / len(STAKES)).ln()


def images_reach(worse: int, better: int, alike: int, threshold: Fraction) -> bool:
    """Return whether images alone reach a threshold, if at most `alike` show the same thing."""
    with localcontext(_DIGITS):
        return log_evidence_of_images(worse, better, alike) >= _ln(threshold)


def log_of(value: Fraction) -> float:
    """Return the natural logarithm of a fraction of any size."""
    return math.log(value.numerator) - math.log(value.denominator)


@lru_cache(1 << 16)
def _log_factors(z: Fraction) -> tuple[float, ...]:
    return tuple(math.log1p(float(stake * z)) for stake in STAKES)


def _ln(value: Fraction) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).ln()

"""Discrete Gaussian noise on vectors of integers, drawn by OpenDP.

A draw x has probability proportional to exp(-x^2 / (2 s^2)) on all integers, exactly: OpenDP draws
by rational arithmetic from the system's random bytes (Canonne, Kamath and Steinke 2020,
arXiv 2004.00010). No floating-point number is rounded, so no bit of it tells what it was added to.
A vector of integers with such noise of deviation s, of which one protected contribution changes
at most the length d, has Rényi divergence a d^2 / (2 s^2) at every order a, as a Gaussian has.

A number costs 12 to 20 microseconds of one core: 800,000 numbers 10 s. Draws of one vector are
independent, so threads share them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from math import isfinite, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import PrivacyError

Integers = npt.NDArray[np.int64]

MAX_DEVIATION = 2.0**40
"""Largest deviation: sums of a million draws stay within 64 bits."""
LEAST_SHARE = 4.0
"""Least deviation of a share. The sum of shares is no discrete Gaussian; it differs by the sum of
10 exp(-2 pi^2 s^2 k / (k + 1)) over k below their number (Kairouz et al. 2021, arXiv 2102.06387),
here below 10^-67 each."""
_BLOCK = 1 << 15
_WIDE = 2.0**24
"""From this deviation on draws are of 64 bits, which take twice as long."""


def discrete_gaussian(count: int, deviation: float) -> Integers:
    """Return `count` independent draws of the discrete Gaussian of this deviation, (count,).

    A deviation of 0 gives zeros. Raises `PrivacyError` where OpenDP is not installed, or for a
    deviation that no noise can have.
    """
    if not (isfinite(deviation) and 0 <= deviation <= MAX_DEVIATION):
        raise PrivacyError(f"deviation: {deviation:g}; give 0 to {MAX_DEVIATION:g}")
    if not deviation:
        return np.zeros(count, np.int64)
    try:
        import opendp.prelude as dp  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise PrivacyError(
            "opendp: not installed, and noise is drawn by it; pip install 'fleetledger[privacy]'"
        ) from error
    dp.enable_features("contrib")  # names mechanisms such as this one
    number = dp.i64 if deviation > _WIDE else dp.i32
    space = dp.vector_domain(dp.atom_domain(T=number)), dp.l2_distance(T=float)
    draw = dp.m.make_gaussian(*space, scale=float(deviation))
    sizes = [min(_BLOCK, count - start) for start in range(0, count, _BLOCK)]
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as threads:
        drawn = list(threads.map(lambda size: draw([0] * size), sizes))
    return np.concatenate(
        [np.asarray(block, np.int64) for block in drawn] or [np.empty(0, np.int64)]
    )


def share_of(deviation: float, members: int) -> float:
    """Return the deviation each of `members` adds so that their sum has `deviation`.

    `members` is the least number that stays: more members make more noise, never less. Raises
    `PrivacyError` for shares too small to add up to a discrete Gaussian.
    """
    share = deviation / sqrt(members)
    if share < LEAST_SHARE:
        raise PrivacyError(
            f"deviation: {deviation:g} shared by {members} is {share:g} each; scale the numbers up "
            f"until a share is {LEAST_SHARE:g} or more"
        )
    return share

"""Evidence that one model is worse than another, from images that only one of them had right.

Of n images that exactly one of two models answers rightly, b only the former one (`worse`) and c only
the new one (`better`). If both are equally good, each falls on either side like a fair coin. The
evidence against that is the e-value of the mixture by Krichevsky and Trofimov (a Beta(1/2, 1/2)
prior on the coin) against the fair coin:

    e(b, c) = 2^n B(b + 1/2, c + 1/2) / B(1/2, 1/2) = C(2b, b) C(2c, c) / (2^n C(n, b))

Under equal models it is a martingale that begins with 1, so the chance that it *ever* reaches t is at
most 1/t (Ville's inequality), however often somebody looks; on the side b > c, at most about half of
that. Only that side counts here.

The right-hand form is made of integers. Far from a threshold logarithms decide; close to it, where
another machine's `lgamma` could decide otherwise, the integers do.
"""

from __future__ import annotations

import math

_RELATIVE = 1e-11
"""Of the largest term: far more than any `lgamma` errs by."""
_ABSOLUTE = 1e-9


def log_evidence(worse: int, better: int) -> float:
    """Return the natural logarithm of the e-value, for people; its last digits are the machine's.

    It is told as it is also where the new model is better; there it counts for nothing.
    """
    return math.fsum(_terms(worse, better))


def reaches(worse: int, better: int, threshold: int) -> bool:
    """Return whether the new model is shown to be worse: b > c, and an e-value of `threshold`.

    The same on every machine. `threshold` is at least 1.
    """
    if worse <= better:
        return False
    terms = _terms(worse, better)
    distance = math.fsum(terms) - math.log(threshold)
    if abs(distance) > _ABSOLUTE + _RELATIVE * max(map(abs, terms)):
        return distance > 0
    count = worse + better
    found = math.comb(2 * worse, worse) * math.comb(2 * better, better)
    return found >= threshold * math.comb(count, worse) << count


def _terms(worse: int, better: int) -> tuple[float, ...]:
    count = worse + better
    return (
        math.lgamma(worse + 0.5),
        math.lgamma(better + 0.5),
        -math.lgamma(count + 1),
        -math.log(math.pi),
        count * math.log(2),
    )

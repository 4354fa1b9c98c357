"""Evidence, looked at as often as one likes, that a coin falls on one side too often.

Of n images that exactly one of two models answers rightly, b only the former one (`worse`) and c
only the new one (`better`). If both are equally good, each falls on either side like a fair coin,
p = 1/2. The evidence against that is the e-value of the mixture by Krichevsky and Trofimov (a
Beta(1/2, 1/2) prior on the coin) against the coin with chance p = 1 - q of `worse`:

    e(b, c) = B(b + 1/2, c + 1/2) / (B(1/2, 1/2) p^b q^c)
            = C(2b, b) C(2c, c) / (4^n C(n, b) p^b q^c)

Under that coin it is a martingale that begins with 1, so the chance that it *ever* reaches t is at
most 1/t (Ville's inequality), however often somebody looks. Only the side b > p n counts here,
which halves it, about, for p = 1/2.

The right-hand form is made of integers. Far from a threshold logarithms decide; close to it, where
another machine's `lgamma` could decide otherwise, the integers do.
"""

from __future__ import annotations

import math
from fractions import Fraction

HALF = Fraction(1, 2)
_RELATIVE = 1e-11
"""Of the largest term: far more than any `lgamma` errs by."""
_ABSOLUTE = 1e-9


def log_evidence(worse: int, better: int, chance: Fraction = HALF) -> float:
    """Return the natural logarithm of the e-value, for people; its last digits are the machine's.

    It is told as it is also where the new model is better; there it counts for nothing.
    `chance` is that of `worse`, above 0 and below 1.
    """
    return math.fsum(_terms(worse, better, chance))


def reaches(worse: int, better: int, threshold: Fraction, chance: Fraction = HALF) -> bool:
    """Return whether `worse` is more than its chance, by an e-value of at least `threshold`.

    The same on every machine. `threshold` is at least 1; `chance` from 0 up to below 1, and with 0
    a single one of `worse` is proof.
    """
    if worse * chance.denominator <= chance.numerator * (worse + better):
        return False
    if not chance:
        return True
    terms = _terms(worse, better, chance)
    distance = math.fsum(terms) - _log(threshold)
    if abs(distance) > _ABSOLUTE + _RELATIVE * max(map(abs, terms)):
        return distance > 0
    return _exact(worse, better, chance) >= threshold


def _exact(worse: int, better: int, chance: Fraction) -> Fraction:
    count, one, all_of = worse + better, chance.numerator, chance.denominator
    return Fraction(
        math.comb(2 * worse, worse) * math.comb(2 * better, better) * all_of**count,
        math.comb(count, worse) * one**worse * (all_of - one) ** better << 2 * count,
    )


def _terms(worse: int, better: int, chance: Fraction) -> tuple[float, ...]:
    return (
        math.lgamma(worse + 0.5),
        math.lgamma(better + 0.5),
        -math.lgamma(worse + better + 1),
        -math.log(math.pi),
        -worse * _log(chance),
        -better * (_log(chance) if chance is HALF else _log(1 - chance)),
    )


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)

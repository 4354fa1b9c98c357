"""Shares of a secret, of which so many give it and fewer tell nothing.

Shamir 1979, "How to share a secret": the secret is the value at zero of a random polynomial of
degree t - 1 over the integers modulo a prime, and a share its value at the holder's place, 1 to n.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from fleetledger.learning.errors import RangeError
from fleetledger.runtime.count_words import count_of

SECRET_BYTES = 32
SHARE_BYTES = 33
"""A number below the prime."""
_PRIME = 2**256 + 297
"""The least prime above all secrets."""


def split(secret: bytes, threshold: int, holders: int) -> tuple[bytes, ...]:
    """Return a share for each of the places 1 to `holders`; any `threshold` of them give `secret`.

    Raises `RangeError` for a secret of another length than 32 bytes, or such numbers.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= holders:
        raise RangeError(
            f"threshold: {threshold} of {count_of(holders, 'share')} of a secret of "
            f"{count_of(len(secret), 'byte')}; give {SECRET_BYTES} bytes, and a threshold from 1 "
            "to the number of holders"
        )
    coefficients = [secrets.randbelow(_PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret, "big"))
    return tuple(_value(coefficients, place) for place in range(1, holders + 1))


def joined(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret of shares by place, as many as the threshold.

    Raises `RangeError` for shares that are not of one secret of 32 bytes. Shares of another secret
    give another secret, which is not noticed here.
    """
    numbers = {place: int.from_bytes(share, "big") for place, share in shares.items()}
    if not numbers or min(numbers) < 1 or max(numbers.values()) >= _PRIME:
        raise RangeError(f"shares: {len(numbers)} that are of no secret; ask for them again")
    secret = sum(
        number * _weight(place, [other for other in numbers if other != place])
        for place, number in numbers.items()
    )
    secret %= _PRIME
    if secret >= 2 ** (8 * SECRET_BYTES):
        raise RangeError(f"shares: {len(numbers)} that are not of one secret; ask for them again")
    return secret.to_bytes(SECRET_BYTES, "big")


def _value(coefficients: list[int], place: int) -> bytes:
    value = 0
    for coefficient in coefficients:
        value = (value * place + coefficient) % _PRIME
    return value.to_bytes(SHARE_BYTES, "big")


def _weight(place: int, others: list[int]) -> int:
    """Return the value at zero of the polynomial that is 1 at `place` and 0 at the others."""
    above, below = 1, 1
    for other in others:
        above = above * -other % _PRIME
        below = below * (place - other) % _PRIME
    return above * pow(below, -1, _PRIME)

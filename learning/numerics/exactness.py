"""Where arithmetic is exact, and the proofs that a fleet's numbers stay there.

A float with p bits of significand holds every integer of magnitude up to 2^p. A sum of integers
whose partial sums all stay within that is exact in any order, with or without fused operations.
"""

from __future__ import annotations

from fleetledger.learning.errors import RangeError

FLOAT32_EXACT = 2**24
"""float32 holds every integer up to this magnitude."""
FLOAT64_EXACT = 2**53
"""float64 holds every integer up to this magnitude."""
INT64_LARGEST = 2**63 - 1


def prove_sum(what: str, largest: int, shift: int, terms: int) -> int:
    """Return the bits, sign included, of a sum of `terms` integers, each shifted left by `shift`.

    `largest` bounds their magnitude before the shift. Raises `RangeError` naming `what` unless
    the sum fits int64.
    """
    bits = ((largest << shift) * terms).bit_length() + 1
    if bits > 64:
        raise RangeError(
            f"{what}: {terms} parts of up to {largest} shifted by {shift} bits need {bits} bits, "
            "more than 64; allow fewer samples, parts or bits, or a narrower range of steps"
        )
    return bits


def prove_float64(what: str, largest: int) -> None:
    """Raise `RangeError` naming `what` unless sums up to `largest` are exact in float64."""
    if largest > FLOAT64_EXACT:
        raise RangeError(
            f"{what}: sums of up to {largest} exceed 2^53 and are not exact in float64; "
            "allow fewer samples or bits, or a coarser finest step"
        )


def exact_rows(largest: int, limit: int = FLOAT32_EXACT) -> int:
    """Return how many products of two integers up to `largest` may be summed within `limit`.

    Raises `RangeError` when not even one product is exact.
    """
    rows = limit // max(1, largest * largest)
    if rows < 1:
        raise RangeError(f"features: products of {largest} exceed {limit}; use fewer bits")
    return rows

"""Counts with their words, right for 0, 1 and 2: `1 entry`, `1,204 devices`, `0.5 hours`."""

from __future__ import annotations

from numbers import Integral


def count_of(number: float, one: str, many: str = "") -> str:
    """Return a number with its word; `many` where that is not `one` with an s."""
    whole = isinstance(number, int | Integral)
    shown = f"{number:,}" if whole else f"{number:,.4g}"
    return f"{shown} {agree(number, one, many or one + 's')}"


def agree(number: float, one: str, many: str) -> str:
    """Return the word that goes with a number, such as `is` or `are`."""
    return one if number == 1 else many

"""Phrases for values in sentences: lists, names, files, spans of time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleetledger.runtime import count_words
from fleetledger.schemas.offers import Offer

_NAMED = 10
"""Devices, names and versions that a sentence lists; the rest are counted."""

_SECOND_NS = 1_000_000_000
_DIGITS = re.compile(r"([0-9]+)")


def count_of(number: int, one: str = "device", many: str = "") -> str:
    """Return a number with its word: `1 device`, `1,204 devices`."""
    return count_words.count_of(number, one, many)


def some(items: Iterable[object], most: int = _NAMED) -> str:
    """Return the first ten items, or as many as asked for, and the number of the others."""
    listed = [str(item) for item in items]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return what names are ordered by, so that `device-2` stands before `device-10`."""
    pieces = _DIGITS.split(name)
    return tuple((0, int(one), one) if one.isdecimal() else (1, 0, one) for one in pieces if one)


def files(extras: Mapping[str, Offer]) -> str:
    """Return files by name and digest."""
    named = (f"{name} {offer.digest.short}" for name, offer in sorted(extras.items()))
    return ", ".join(named) or "nothing"


def names_of(names: tuple[Any, ...]) -> str:
    """Return names as they stand in a sentence."""
    return ", ".join(str(name) for name in names) or "no classes"


def span(nanoseconds: int) -> str:
    """Return how long that is, in the unit that suits it."""
    seconds = abs(nanoseconds) / _SECOND_NS
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            shown = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{shown} {'day' if shown == '1' and unit == 'days' else unit}"
    return f"{seconds:.3g} s"

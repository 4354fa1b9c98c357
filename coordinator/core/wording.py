"""Lists in sentences: the first items, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable

_NAMED = 10
"""Devices, names and versions that a sentence lists; the rest are counted."""


def some(items: Iterable[object]) -> str:
    """Return the first ten items, and the number of the others."""
    listed = [str(item) for item in items]
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more

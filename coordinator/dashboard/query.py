"""Values in the query of an address: numbers, and where a list continues."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.sources import Asked, NotThereError

_DIGITS = 18


def count_of(text: str | None) -> int | None:
    """Return a number from 0 on; None where the text is none, or too long to be one."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        return None
    return int(text)


def number_in_path(asked: Asked, name: str, what: str) -> int:
    """Return the number in an address; raise `NotThereError` where it is none."""
    found = count_of(asked.path[name])
    if found is None:
        raise NotThereError(f"{asked.path[name][:40]} is not the number of a {what}.")
    return found

"""Entries in words, for the person at the keyboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.schemas.errors import shorten

Sentence = Callable[[Entry], str]
"""Says an entry of one kind in one sentence."""


def explain(entry: Entry, sentences: Mapping[str, Sentence]) -> str:
    """Return one sentence about an entry; kinds without a sentence of their own are listed."""
    return sentences.get(entry.kind, listed)(entry)


def time_text(time_ns: int) -> str:
    """Return a time in UTC, to the second; nanoseconds since 1970 where no calendar reaches."""
    try:
        moment = datetime.fromtimestamp(time_ns // 1_000_000_000, tz=timezone.utc)
    except (OverflowError, ValueError):
        return f"{time_ns} ns"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def listed(entry: Entry) -> str:
    """Return the entry's fields as a sentence, for a kind or a body without one of its own."""
    about = f" about {entry.device}" if entry.device and entry.device != entry.actor else ""
    fields = ", ".join(f"{name} = {shorten(value)}" for name, value in entry.body.items())
    return f"{entry.actor} recorded {entry.kind}{about}" + (f": {fields}" if fields else "")

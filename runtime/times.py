"""Times as programs compare them and as people read them: nanoseconds since 1970, and ISO 8601."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from pydantic import PlainSerializer, WithJsonSchema

_SECOND_NS = 1_000_000_000
_NEAR_NS = 120 * _SECOND_NS


def iso_time(time_ns: int) -> str:
    """Return a time in UTC to the second, as `2026-11-23T20:05:00Z`.

    Where no calendar reaches, it is the number of nanoseconds since 1970 with its unit.
    """
    try:
        moment = datetime.fromtimestamp(time_ns // _SECOND_NS, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{time_ns} ns"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


IsoTime = Annotated[
    int,
    PlainSerializer(iso_time, return_type=str, when_used="json"),
    WithJsonSchema(
        {"type": "string", "description": "A time in UTC, such as 2026-11-23T20:05:00Z."}
    ),
]
"""Nanoseconds since 1970; as JSON a time of ISO 8601 in UTC, to the second."""


def clock_time(time_ns: int, now_ns: int) -> str:
    """Return a time near to now in UTC, in a sentence: `07:54 UTC`, `29 Nov 07:54 UTC`.

    It has its seconds within two minutes, its day where that is not today's, and its year where it
    is another.
    """
    try:
        moment, now = (
            datetime.fromtimestamp(at // _SECOND_NS, tz=timezone.utc) for at in (time_ns, now_ns)
        )
    except (OverflowError, ValueError, OSError):
        return iso_time(time_ns)
    near = abs(time_ns - now_ns) < _NEAR_NS
    clock = moment.strftime("%H:%M:%S UTC" if near else "%H:%M UTC")
    if moment.date() == now.date() or near:
        return clock
    year = "" if moment.year == now.year else f" {moment.year}"
    return f"{moment.day} {moment:%b}{year} {clock}"

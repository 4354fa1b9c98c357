"""How values are written on pages: numbers, shares, sizes, times, and texts of devices."""

from __future__ import annotations

import math
import unicodedata
from datetime import datetime, timezone

from markupsafe import Markup

from fleetledger.runtime.count_words import count_of

_SECOND_NS = 1_000_000_000
_DATED_NS = 28 * 86_400 * _SECOND_NS
"""From here on a date says more than a count of days."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of characters that are not seen, or that turn the text around them."""
NOTHING = "–"
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TICK_SECONDS = (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 86_400)
"""Distances of times at an axis."""


def visible(value: object) -> object:
    r"""Return `value` with what cannot be seen in a text written out as `\u202e`.

    Markup of our own and what is no text stay as they are; nothing is escaped here.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if value.isascii() and value.isprintable():
        return value
    return "".join(_seen(letter) for letter in value)


def coded(text: str) -> Markup:
    """Return a text as HTML in which what stands in backticks is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one that is not closed is only a letter
        pieces[-2:] = ["`".join(pieces[-2:])]
    code = Markup('<code class="said">{}</code>')
    said = (str(visible(piece)) for piece in pieces)
    return Markup("").join(code.format(one) if at % 2 else one for at, one in enumerate(said))


def number(value: float | None) -> str:
    """Return a count with commas: 1,204."""
    return NOTHING if value is None else f"{value:,.0f}"


def in_words(count: int) -> str:
    """Return a small count in a word: four; others as numbers."""
    return _WORDS[count] if count < len(_WORDS) else number(count)


def percent(share: float | None) -> str:
    """Return a share of 0 to 1 in per cent: 96.0 %."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def size(count: float | None) -> str:
    """Return bytes in the unit that suits them, in powers of ten: 21.4 GB."""
    if count is None:
        return NOTHING
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def ago(then_ns: int | None, now_ns: int) -> str:
    """Return how long ago that was: 8 s ago; beyond four weeks its date: on 20 November 2025."""
    if then_ns is None or (found := _utc(then_ns)) is None:
        return NOTHING
    if now_ns - then_ns >= _DATED_NS:
        return f"on {found.day} {found:%B %Y}"
    return f"{long(now_ns - then_ns)} ago"


def long(nanoseconds: int) -> str:
    """Return how long that is, in one whole unit: 8 s, 3 min, 5 h, 2 days."""
    seconds = max(0, nanoseconds) / _SECOND_NS
    for unit_seconds, unit in ((86_400, "day"), (3600, "h"), (60, "min")):
        if seconds >= unit_seconds:
            count = int(seconds // unit_seconds)
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return f"{seconds:.0f} s"


def moment(time_ns: int | None) -> str:
    """Return a time: 22 November 2026, 14:32:08 UTC."""
    found = _utc(time_ns)
    return NOTHING if found is None else f"{found.day} {found:%B %Y, %H:%M:%S} UTC"


def clock(time_ns: int | None) -> str:
    """Return the time of day in UTC: 14:32:08."""
    found = _utc(time_ns)
    return NOTHING if found is None else f"{found:%H:%M:%S}"


def short_time(time_ns: int | None) -> str:
    """Return a time in UTC in a few letters: 22 Nov 14:32."""
    found = _utc(time_ns)
    return NOTHING if found is None else f"{found.day} {found:%b %H:%M}"


def day(time_ns: int, now_ns: int) -> str:
    """Return the day: Today, Yesterday, 19 November, 19 November 2025."""
    found, now = _utc(time_ns), _utc(now_ns)
    if found is None or now is None:
        return NOTHING
    days = (now.date() - found.date()).days
    if days in {0, 1}:
        return ("Today", "Yesterday")[days]
    return f"{found.day} {found:%B}" + ("" if found.year == now.year else f" {found.year}")


def iso(time_ns: int | None) -> str:
    """Return a time for programs: 2026-11-22T14:32:08Z; empty where there is none."""
    found = _utc(time_ns)
    return "" if found is None else f"{found:%Y-%m-%dT%H:%M:%SZ}"


def time_ticks(first_ns: int, last_ns: int, most: int = 4) -> list[tuple[int, str]]:
    """Return round times between two, each with its word: 22 Nov, 14:00, 14:32:10."""
    seconds = next(
        (size for size in _TICK_SECONDS if (last_ns - first_ns) / _SECOND_NS / size <= most),
        86_400 * max(1, math.ceil((last_ns - first_ns) / _SECOND_NS / 86_400 / most)),
    )
    step = seconds * _SECOND_NS
    form = "%-d %b" if seconds >= 86_400 else "%H:%M" if seconds >= 60 else "%H:%M:%S"
    return [
        (at, found.strftime(form))
        for at in range(-(-first_ns // step) * step, last_ns + 1, step)
        if (found := _utc(at)) is not None
    ]


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its word: 1 device, 1,204 devices."""
    return count_of(count, one, many)


def _utc(time_ns: int | None) -> datetime | None:
    if time_ns is None:
        return None
    try:
        return datetime.fromtimestamp(time_ns // _SECOND_NS, tz=timezone.utc)
    except (OverflowError, ValueError):
        return None


def _seen(letter: str) -> str:
    if unicodedata.category(letter) not in _HIDDEN:
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

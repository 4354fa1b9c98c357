"""The plot of a device's last day: the temperature, or where it has no thermometer, the memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.dashboard.parts.remarks import HOT_CELSIUS
from coordinator.live.snapshot import HealthPoint

_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 300, 14, 120
_GAP_NS = 25 * 60 * 10**9
"""Points that are further apart are not joined: nothing is known of what was between them."""
_MEGA = 1e6


@dataclass(frozen=True)
class HealthPlot:
    """Everything that is drawn, in SVG's units."""

    what: str
    path: str
    shares: tuple[tuple[float, str], ...]
    first_ns: int
    last_ns: int
    limit: float | None
    """Where the limit is drawn."""
    end: tuple[float, float]
    newest: str
    low: str
    high: str


def health_plot(points: Sequence[HealthPoint]) -> HealthPlot | None:
    """Return the plot; None with fewer than two points."""
    hot = [(point.time_ns, point.celsius) for point in points if point.celsius is not None]
    if len(hot) > 1:
        return _drawn("Hottest thermal zone, °C", " °C", hot, HOT_CELSIUS)
    held = [
        (point.time_ns, point.resident_bytes / _MEGA)
        for point in points
        if point.resident_bytes is not None
    ]
    return _drawn("Agent's memory, MB", " MB", held, None) if len(held) > 1 else None


def _drawn(
    what: str, unit: str, told: Sequence[tuple[int, float]], limit: float | None
) -> HealthPlot:
    values = [value for _, value in told]
    step = _step(max(values) - min(values))
    low = step * math.floor(min(values) / step)
    high = step * math.ceil(max(values) / step)
    high = max(high, low + 2 * step)
    shows_limit = limit is not None and limit <= high + 2 * step
    top = max(high, limit) if shows_limit and limit is not None else high
    first_ns, last_ns = told[0][0], told[-1][0]

    def x(time_ns: int) -> float:
        return _LEFT + (time_ns - first_ns) / max(1, last_ns - first_ns) * (_RIGHT - _LEFT)

    def y(value: float) -> float:
        return _BOTTOM - (value - low) / (top - low) * (_BOTTOM - _TOP)

    path, before = "", None
    for time_ns, value in told:
        joined = before is not None and time_ns - before <= _GAP_NS
        path += f"{'L' if joined else 'M'}{x(time_ns):.1f} {y(value):.1f}"
        before = time_ns
    lines = range(round((high - low) / step) + 1)
    return HealthPlot(
        what=what,
        path=path,
        shares=tuple((round(y(low + step * line), 1), f"{low + step * line:g}") for line in lines),
        first_ns=first_ns,
        last_ns=last_ns,
        limit=round(y(limit), 1) if shows_limit and limit is not None else None,
        end=(round(x(last_ns), 1), round(y(values[-1]), 1)),
        newest=f"{values[-1]:.0f}{unit}",
        low=f"{min(values):.0f}{unit}",
        high=f"{max(values):.0f}{unit}",
    )


def _step(span: float) -> float:
    return next((step for step in (5, 10, 20, 50, 100, 200, 500) if span / step <= 3), 1000)

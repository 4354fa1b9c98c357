"""The plot of a device's last day: the temperature, or where it has no thermometer, the memory."""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.coordinator.dashboard.parts.device_remarks import HOT_CELSIUS
from fleetledger.coordinator.dashboard.parts.plot import (
    SMALL,
    Drawing,
    Plot,
    PlotLine,
    ValueAxis,
)
from fleetledger.coordinator.dashboard.parts.time_plots import joined
from fleetledger.coordinator.live.snapshot import HealthPoint
from fleetledger.transport.pages.words import time_ticks

_MEGA = 1e6


def health_plot(points: Sequence[HealthPoint]) -> Plot | None:
    """Return the plot; None with fewer than two points."""
    hot = [(point.time_ns, point.celsius) for point in points if point.celsius is not None]
    if len(hot) > 1:
        return _drawn("Hottest thermal zone", "°C", hot, HOT_CELSIUS)
    held = [
        (point.time_ns, point.resident_bytes / _MEGA)
        for point in points
        if point.resident_bytes is not None
    ]
    return _drawn("Agent's memory", "MB", held, None) if len(held) > 1 else None


def _drawn(what: str, unit: str, told: Sequence[tuple[int, float]], limit: float | None) -> Plot:
    values = [value for _, value in told]
    axis = ValueAxis.over(values if limit is None else [*values, limit], unit, least=5)
    drawing = Drawing((told[0][0], told[-1][0]), axis, SMALL)
    drawing.grid()
    drawing.below(time_ticks(told[0][0], told[-1][0]))
    if limit is not None:
        drawing.limit(limit, f"{limit:g} {unit} is hot")
    drawing.lines([PlotLine(joined(told), f"{values[-1]:.0f} {unit}")])
    span = f"{min(values):.0f} to {max(values):.0f}\N{NO-BREAK SPACE}{unit}"
    return drawing.done(f"{what}, {unit}, of the last 24 hours: {span}")

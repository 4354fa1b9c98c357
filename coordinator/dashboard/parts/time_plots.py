"""What happened over time: contributions, bytes, and temperatures of the fleet."""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.coordinator.dashboard.parts import plot
from fleetledger.coordinator.dashboard.parts.device_remarks import HOT_CELSIUS
from fleetledger.coordinator.live.day import POINT_SECONDS, SECOND_NS
from fleetledger.coordinator.live.snapshot import FleetHeat, HealthPoint, TrafficPoint
from fleetledger.coordinator.reports.contributions import CountsOverTime
from fleetledger.transport.pages import words
from fleetledger.transport.pages.words import clock, plural, short_time, time_ticks

_POINT_NS = int(POINT_SECONDS * SECOND_NS)
_HOUR_NS = 3600 * SECOND_NS
_GAP_NS = 5 * _POINT_NS // 2
"""Points that are further apart are not joined: nothing is known of what was between them."""
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))


def contributions_plot(given: CountsOverTime) -> plot.Plot | None:
    """Return bars by hour or by day; None where nothing was given."""
    if not any(given.counts):
        return None
    starts = [given.first_ns + given.span_ns * place for place in range(len(given.counts) + 1)]
    drawing = plot.Drawing(
        (starts[0], starts[-1]), plot.ValueAxis.over(given.counts, from_zero=True)
    )
    drawing.grid()
    drawing.below(time_ticks(starts[0], starts[-1] - 1, 6))
    drawing.bars(
        (first, last, count, f"{short_time(first)}: {count:,}")
        for first, last, count in zip(starts, starts[1:], given.counts, strict=False)
    )
    most = max(given.counts)
    when = short_time(starts[given.counts.index(most)])
    by_hour = given.span_ns <= _HOUR_NS
    word, when = ("hour", f"from {when}") if by_hour else ("day", f"on {when[:-6]}")
    came = plural(sum(given.counts), "contribution")
    return drawing.done(f"{came} in {plural(len(given.counts), word)}; the most, {most:,}, {when}.")


def traffic_plot(points: Sequence[TrafficPoint], now_ns: int) -> plot.Plot | None:
    """Return bytes in and out of each whole ten minutes; None before there are two of them."""
    ended = [point for point in points if point.time_ns + _POINT_NS <= now_ns]
    if not ended:
        return None
    told = {point.time_ns: point for point in ended}
    times = range(ended[0].time_ns, now_ns - _POINT_NS + 1, _POINT_NS)
    if len(times) < 2:
        return None
    passed = [told.get(at, TrafficPoint(time_ns=at, bytes_in=0, bytes_out=0)) for at in times]
    most = max(max(point.bytes_in, point.bytes_out) for point in passed)
    size, unit = next(item for item in _SIZES if most >= item[0] or item[0] == 1)
    came = [(point.time_ns, point.bytes_in / size) for point in passed]
    went = [(point.time_ns, point.bytes_out / size) for point in passed]
    axis = plot.ValueAxis.over(
        [value for _, value in (*came, *went)], unit, from_zero=True, least=0.1
    )
    drawing = plot.Drawing((times[0], times[-1]), axis)
    drawing.grid()
    drawing.below(time_ticks(times[0], times[-1], 6))
    drawing.lines(
        [
            plot.PlotLine(values, f"{word} {words.size(values[-1][1] * size)}", look)
            for word, look, values in (("in", "", came), ("out", "dashed", went))
        ]
    )
    busiest = max(passed, key=lambda point: point.bytes_in + point.bytes_out)
    at = clock(busiest.time_ns)[:5]
    return drawing.done(f"{unit} in each ten minutes; the most passed in those from {at}.")


def heat_plot(points: Sequence[FleetHeat]) -> plot.Plot | None:
    """Return the mean and the hottest of all devices' temperatures; None before two points."""
    if len(points) < 2:
        return None
    mean = joined([(point.time_ns, point.mean) for point in points])
    hottest = joined([(point.time_ns, point.hottest) for point in points])
    values = [value for _, value in (*mean, *hottest) if value is not None]
    axis = plot.ValueAxis.over([*values, HOT_CELSIUS], "°C", least=5)
    drawing = plot.Drawing((points[0].time_ns, points[-1].time_ns), axis, plot.SMALL)
    drawing.grid()
    drawing.below(time_ticks(points[0].time_ns, points[-1].time_ns))
    drawing.limit(HOT_CELSIUS, f"{HOT_CELSIUS:g} °C is hot")
    newest = points[-1]
    drawing.lines(
        [
            plot.PlotLine(hottest, f"hottest {newest.hottest:.0f}"),
            plot.PlotLine(mean, f"mean {newest.mean:.0f}", "dashed"),
        ]
    )
    most = max(points, key=lambda point: point.hottest)
    return drawing.done(
        f"Hottest in the last day: {most.hottest:.0f}\N{NO-BREAK SPACE}°C, {most.device}, at "
        f"{clock(most.time_ns)[:5]}; {plural(newest.devices, 'device')} "
        f"{'tells its' if newest.devices == 1 else 'tell their'} temperature."
    )


def joined(points: Sequence[tuple[int, float]]) -> list[tuple[float, float | None]]:
    """Return points with a gap between those that are too far apart to be joined."""
    found: list[tuple[float, float | None]] = []
    for time_ns, value in points:
        if found and time_ns - found[-1][0] > _GAP_NS:
            found.append((time_ns, None))
        found.append((time_ns, value))
    return found


_MEGA = 1e6


def health_plot(points: Sequence[HealthPoint]) -> plot.Plot | None:
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


def _drawn(
    what: str, unit: str, told: Sequence[tuple[int, float]], limit: float | None
) -> plot.Plot:
    values = [value for _, value in told]
    axis = plot.ValueAxis.over(values if limit is None else [*values, limit], unit, least=5)
    drawing = plot.Drawing((told[0][0], told[-1][0]), axis, plot.SMALL)
    drawing.grid()
    drawing.below(time_ticks(told[0][0], told[-1][0]))
    if limit is not None:
        drawing.limit(limit, f"{limit:g} {unit} is hot")
    drawing.lines([plot.PlotLine(joined(told), f"{values[-1]:.0f} {unit}")])
    span = f"{min(values):.0f} to {max(values):.0f}\N{NO-BREAK SPACE}{unit}"
    return drawing.done(f"{what}, {unit}, of the last 24 hours: {span}")

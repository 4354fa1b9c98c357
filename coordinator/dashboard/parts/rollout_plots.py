"""The plots of a rollout, in SVG's units: evidence by class, the same small, and exposure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fleetledger.coordinator.dashboard.parts.plot import LABEL, PlotLabel, round_step
from fleetledger.coordinator.reports.rollouts.report import EvidenceCurve, EvidencePoint, Exposure
from fleetledger.transport.pages.words import plural, time_ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 386.0, 14.0, 190.0
_SPARK_WIDTH, _SPARK_HEIGHT = 120.0, 36.0
_LOWEST = -2.0
_ABOVE = 0.75
"""Of log e, kept free above the highest."""
_Scale = Callable[[float], float]


@dataclass(frozen=True)
class EvidencePlot:
    """Log e of the curve that matters as reports came, of others faintly, and the limit."""

    text: str
    """What it shows, for who does not see it."""
    across: tuple[PlotLabel, ...]
    """Values of log e, each with a line."""
    below: tuple[PlotLabel, ...]
    line: str
    others: tuple[str, ...]
    limit: float | None
    zero: float
    end: tuple[float, float]
    crossing: tuple[float, float] | None
    """Where the curve passed the limit first."""
    name: str
    others_at: float | None
    """Where the word for the others stands."""
    fails: bool


@dataclass(frozen=True)
class EvidenceSpark:
    """The same in the height of two lines."""

    text: str
    line: str
    others: tuple[str, ...]
    limit: float
    zero: float
    end: tuple[float, float]
    fails: bool


@dataclass(frozen=True)
class ExposurePlot:
    """How many devices have run the candidate, and how many open groups allow."""

    text: str
    across: tuple[PlotLabel, ...]
    below: tuple[PlotLabel, ...]
    line: str
    area: str
    allowed: str
    most: PlotLabel | None
    end: tuple[float, float]
    count: int
    marks: tuple[PlotLabel, ...]
    """What the rollout came to: a line from top to bottom, and its word."""


def evidence_plot(
    curve: EvidenceCurve, others: Sequence[EvidenceCurve], limit: float
) -> EvidencePlot | None:
    """Return the plot of a curve among others; None where it has fewer than two points."""
    if len(curve.points) < 2:
        return None
    drawn = [curve, *others]
    low = min(_LOWEST, *(point.log_e for one in drawn for point in one.points))
    high = max(limit, *(point.log_e for one in drawn for point in one.points)) + _ABOVE
    most = curve.points[-1].devices

    def x(devices: float) -> float:
        return _LEFT + min(1.0, devices / max(1, most)) * (_RIGHT - 40 - _LEFT)

    def y(log_e: float) -> float:
        return _BOTTOM - (log_e - low) / (high - low) * (_BOTTOM - _TOP)

    step = round_step(high - low, 7)
    marks = [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
    crossing = next((point for point in curve.points if point.log_e >= limit), None)
    last = curve.points[-1]
    rest = sorted(y(one.points[-1].log_e) for one in others if one.points)
    middle = rest[len(rest) // 2] if rest else None
    if middle is not None and abs(middle - y(last.log_e)) < LABEL:
        middle = y(last.log_e) + (LABEL if middle >= y(last.log_e) else -LABEL)
    return EvidencePlot(
        text=_told(curve, limit, crossing) + (f"; {len(others)} others beside it" if rest else ""),
        across=tuple(PlotLabel(28, round(y(at), 1), _signed(at), "end") for at in marks),
        below=tuple(PlotLabel(round(x(at), 1), 208, f"{at:,}") for at in _ticks(most, 4)),
        line=_path(curve, x, y),
        others=tuple(_path(_scaled(one, most), x, y) for one in others if len(one.points) > 1),
        limit=round(y(limit), 1),
        zero=round(y(0), 1),
        end=(round(x(last.devices), 1), round(y(last.log_e), 1)),
        crossing=None
        if crossing is None
        else (round(x(crossing.devices), 1), round(y(crossing.log_e), 1)),
        name=curve.name,
        others_at=None if middle is None else round(middle, 1),
        fails=last.log_e >= limit,
    )


def evidence_spark(
    curve: EvidenceCurve, others: Sequence[EvidenceCurve], limit: float
) -> EvidenceSpark | None:
    """Return the small plot of a curve; None where it has fewer than two points."""
    if len(curve.points) < 2:
        return None
    drawn = [curve, *others]
    low = min(_LOWEST, *(point.log_e for one in drawn for point in one.points))
    high = max(limit, *(point.log_e for one in drawn for point in one.points)) + _ABOVE
    most = curve.points[-1].devices

    def x(devices: float) -> float:
        return 2 + min(1.0, devices / max(1, most)) * (_SPARK_WIDTH - 4)

    def y(log_e: float) -> float:
        return _SPARK_HEIGHT - 2 - (log_e - low) / (high - low) * (_SPARK_HEIGHT - 4)

    last = curve.points[-1]
    return EvidenceSpark(
        text=f"log e {_signed(round(last.log_e, 1))} against the limit {limit:.1f}",
        line=_path(curve, x, y),
        others=tuple(_path(_scaled(one, most), x, y) for one in others if len(one.points) > 1),
        limit=round(y(limit), 1),
        zero=round(y(0), 1),
        end=(round(x(last.devices), 1), round(y(last.log_e), 1)),
        fails=last.log_e >= limit,
    )


def exposure_plot(exposure: Exposure) -> ExposurePlot | None:
    """Return how many devices have run it over time; None before anybody could."""
    if not exposure.allowed:
        return None
    first = exposure.allowed[0].time
    last = max(exposure.until, first + 1)
    top = max(1, exposure.allowed[-1].devices, exposure.ran[-1].devices if exposure.ran else 0)
    step = round_step(top, 4, least=1)
    ceiling = step * math.ceil(top / step)

    def x(time_ns: float) -> float:
        return _LEFT + (time_ns - first) / (last - first) * (_RIGHT - _LEFT)

    def y(devices: float) -> float:
        return _BOTTOM - devices / ceiling * (_BOTTOM - _TOP)

    line = _steps([(one.time, one.devices) for one in exposure.ran], first, last, x, y)
    allowed = _steps([(one.time, one.devices) for one in exposure.allowed], first, last, x, y)
    count = exposure.ran[-1].devices if exposure.ran else 0
    newest = exposure.allowed[-1]
    place = x(newest.time)
    early = place < (_LEFT + _RIGHT) / 2
    marks = [PlotLabel(round(x(mark.time), 1), 0, mark.text) for mark in exposure.marks]
    return ExposurePlot(
        text=f"{plural(count, 'device')} {'has' if count == 1 else 'have'} run it"
        + f"; the groups that are open allow {newest.devices:,}"
        + "".join(f"; {mark.text}" for mark in exposure.marks),
        across=tuple(
            PlotLabel(28, round(y(at), 1), f"{at:,.0f}", "end")
            for at in (step * place for place in range(round(ceiling / step) + 1))
        ),
        below=tuple(
            PlotLabel(round(x(at), 1), 208, text, "start" if at == first else "middle")
            for at, text in time_ticks(first, last)
        ),
        line=line,
        area=f"{line}V{_BOTTOM:g}H{_LEFT:g}Z",
        allowed=allowed,
        most=PlotLabel(
            round(place + 6 if early else place - 6, 1),
            round(y(newest.devices) - 6, 1) if early else round(y(newest.devices) + 4, 1),
            f"most that group {newest.group} allows: {newest.devices:,}",
            "start" if early else "end",
        ),
        end=(round(x(last), 1), round(y(count), 1)),
        count=count,
        marks=tuple(marks[-1:]),
    )


def _told(curve: EvidenceCurve, limit: float, crossing: EvidencePoint | None) -> str:
    last = curve.points[-1]
    name = f"{curve.name}: " if curve.name else ""
    passed = "" if crossing is None else f", passed after {plural(crossing.devices, 'device')}"
    return (
        f"{name}log e that the candidate is worse stands at {_signed(round(last.log_e, 1))} after "
        f"{plural(last.devices, 'device')}; the limit is {limit:.1f}{passed}"
    )


def _path(curve: EvidenceCurve, x: _Scale, y: _Scale) -> str:
    return "M" + "L".join(f"{x(p.devices):.1f} {y(p.log_e):.1f}" for p in curve.points)


def _scaled(curve: EvidenceCurve, most: int) -> EvidenceCurve:
    """Return a curve as long as another one: classes are on different numbers of devices."""
    own = max(1, curve.points[-1].devices)
    points = tuple(
        point.model_copy(update={"devices": round(point.devices * most / own)})
        for point in curve.points
    )
    return curve.model_copy(update={"points": points})


def _steps(points: Iterable[tuple[int, int]], first: int, last: int, x: _Scale, y: _Scale) -> str:
    """Return the path of a count that changes at times, from `first` to `last`."""
    path = f"M{x(first):.1f} {y(0):.1f}"
    for time_ns, count in points:
        path += f"H{x(max(first, min(last, time_ns))):.1f}V{y(count):.1f}"
    return f"{path}H{x(last):.1f}"


def _ticks(most: int, count: int) -> list[int]:
    step = round(round_step(most, count, least=1))
    return list(range(0, most + 1, step))


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")

"""The plot of old against new classes by stage: where everything is drawn, in SVG's units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from coordinator.reading.stage_accuracy import AccuracySpread, StageAccuracy

WIDTH, HEIGHT = 520, 232
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 430, 14, 184
_APART = 10
"""Between the marks of old and new classes of a stage."""
_LINE = 15
"""Between two labels."""


@dataclass(frozen=True)
class PlotMark:
    """A measured share, and how devices differ."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class AxisTick:
    """A word at an axis."""

    at: float
    text: str
    below: str = ""


@dataclass
class StagePlot:
    """Everything that is drawn."""

    old: list[PlotMark] = field(default_factory=list)
    new: list[PlotMark] = field(default_factory=list)
    shares: list[AxisTick] = field(default_factory=list)
    stages: list[AxisTick] = field(default_factory=list)
    floor: int = 0
    """Per cent at the bottom."""

    def line(self, which: Literal["old", "new"]) -> str:
        """Return the path through the marks."""
        marks = self.old if which == "old" else self.new
        return "M" + "L".join(f"{mark.x:.1f} {mark.y:.1f}" for mark in marks)

    def label_y(self, which: Literal["old", "new"]) -> float:
        """Return where the label of a line stands, clear of the other's."""
        own, other = (self.old, self.new) if which == "old" else (self.new, self.old)
        y = own[-1].y
        if not other or abs(other[-1].y - y) >= _LINE:
            return y + 4
        above = y < other[-1].y or (y == other[-1].y and which == "old")
        middle = (y + other[-1].y) / 2
        return middle + 4 + (-_LINE / 2 if above else _LINE / 2)


def stage_plot(stages: Sequence[StageAccuracy], most: int = 12) -> StagePlot | None:
    """Return the plot of the newest stages that were measured; None where none was."""
    shown = [item for item in stages if item.version is not None][-most:]
    spreads = [spread for item in shown for spread in (item.old, item.new) if spread is not None]
    if not spreads:
        return None
    floor = max(0, 5 * math.floor(min(min(s.low, s.right.share) for s in spreads) * 20 - 0.01))
    plot = StagePlot(floor=floor)
    step = next(size for size in (5, 10, 25, 50) if (100 - floor) / size <= 5)
    for per_cent in range(100, floor - 1, -step):
        plot.shares.append(AxisTick(_y(per_cent / 100, floor), f"{per_cent}"))
    for place, item in enumerate(shown):
        x = _LEFT + (place + 0.5) * (_RIGHT - _LEFT) / len(shown)
        plot.stages.append(AxisTick(x, f"stage {item.stage}", f"model {item.version}"))
        apart = _APART / 2 if item.old and item.new else 0
        if item.old is not None:
            plot.old.append(_mark(x - apart, item.old, floor))
        if item.new is not None:
            plot.new.append(_mark(x + apart, item.new, floor))
    return plot


def _mark(x: float, spread: AccuracySpread, floor: int) -> PlotMark:
    share = spread.right.share
    text = f"{100 * share:.1f}"
    return PlotMark(x, _y(share, floor), _y(spread.low, floor), _y(spread.high, floor), text)


def _y(share: float, floor: int) -> float:
    return _TOP + (100 - 100 * share) / (100 - floor) * (_BOTTOM - _TOP)

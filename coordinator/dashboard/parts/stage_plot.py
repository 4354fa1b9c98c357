"""The plot of old against new classes by stage, with how devices differ."""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.coordinator.dashboard.parts.plot import (
    Drawing,
    Plot,
    PlotFrame,
    PlotLine,
    PlotPath,
    ValueAxis,
)
from fleetledger.coordinator.reports.stage_accuracy import AccuracySpread, StageAccuracy

_APART = 0.03
"""Between the marks of old and new classes of a stage, of the plot's width."""
_FRAME = PlotFrame(height=222)


def stage_plot(stages: Sequence[StageAccuracy], most: int = 12) -> Plot | None:
    """Return the plot of the newest stages that were measured; None where none was."""
    shown = [item for item in stages if item.version is not None][-most:]
    spreads = [spread for item in shown for spread in (item.old, item.new) if spread is not None]
    if not spreads:
        return None
    axis = ValueAxis.of_percent(min(min(one.low, one.right.share) for one in spreads))
    drawing = Drawing((-0.5, len(shown) - 0.5), axis, _FRAME)
    drawing.grid()
    drawing.below([(at, f"stage {item.stage}") for at, item in enumerate(shown)], "strong")
    drawing.below([(at, f"model {item.version}") for at, item in enumerate(shown)], line=1)
    half = _APART * len(shown) / 2
    aside = {at: half if item.old and item.new else 0 for at, item in enumerate(shown)}
    old = [(at - aside[at], item.old) for at, item in enumerate(shown) if item.old]
    new = [(at + aside[at], item.new) for at, item in enumerate(shown) if item.new]
    told = (("old", "dot", old), ("new", "square", new))
    for which, _, marks in told:
        drawing.paths += [_spread(drawing, at, spread, which) for at, spread in marks]
    drawing.lines([_line(which, mark, marks) for which, mark, marks in told if marks])
    return drawing.done("Per cent right by stage; the table below says the same")


def _spread(drawing: Drawing, at: float, spread: AccuracySpread, which: str) -> PlotPath:
    high, low = drawing.y(100 * spread.high), drawing.y(100 * spread.low)
    return PlotPath(f"M{drawing.x(at)} {high}V{low}", f"spread {which}")


def _line(which: str, mark: str, marks: Sequence[tuple[float, AccuracySpread]]) -> PlotLine:
    return PlotLine(
        [(at, 100 * spread.right.share) for at, spread in marks],
        f"{which} {100 * marks[-1][1].right.share:.1f}",
        which,
        mark,
    )
